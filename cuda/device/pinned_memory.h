#pragma once

#include <cstdint>

#include "engine/device/device.h"

namespace trainer::cuda {

/// Page-locked memory of the host, which the GPU's copies need to run beside its kernels. Throws DeviceError where the
/// system does not give it.
class PinnedMemory final : public HostMemory {
 public:
  explicit PinnedMemory(std::int64_t num_bytes);
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() override { return bytes_; }

 private:
  std::byte* bytes_ = nullptr;
};

}  // namespace trainer::cuda
