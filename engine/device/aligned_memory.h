#pragma once

#include <new>

#include "engine/device/device.h"

namespace trainer {

/// Ordinary host memory, aligned to cache lines.
class AlignedMemory final : public HostMemory {
 public:
  explicit AlignedMemory(std::int64_t num_bytes)
      : bytes_(new (std::align_val_t{64}) std::byte[static_cast<std::size_t>(num_bytes)]) {}
  std::byte* data() override { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept { ::operator delete[](bytes, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
};

}  // namespace trainer
