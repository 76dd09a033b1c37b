#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/device/device.h"

namespace trainer {

/// The host memory of one device's slots (Note [Offload] in engine/ops/offload.h). It grows when kernels are prepared,
/// never in a step, and stays as long as the device: recordings hold on to its addresses.
class HostSlots {
 public:
  explicit HostSlots(std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)> make)
      : make_(std::move(make)) {}

  /// At least `num_bytes` for that slot: the same address for the same request, and for every smaller one that comes
  /// later. Holds zeros when it is new. Throws DeviceError, which says what to change, where the host has no more.
  std::byte* reserve(std::int32_t slot, std::int64_t num_bytes);

  std::int64_t held_bytes() const { return held_bytes_; }

 private:
  struct Piece {
    std::int64_t num_bytes = 0;
    std::unique_ptr<HostMemory> memory;
  };
  std::function<std::unique_ptr<HostMemory>(std::int64_t)> make_;
  std::map<std::int32_t, std::vector<Piece>> pieces_;
  std::int64_t held_bytes_ = 0;
};

}  // namespace trainer
