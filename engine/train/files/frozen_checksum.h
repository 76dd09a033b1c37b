#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// What a frozen network was loaded from, as checkpoints remember it.
struct FrozenChecksum {
  std::string network;      ///< "loss.network"
  std::uint32_t crc32 = 0;  ///< of the names and numbers that are loaded, as their file has them
  friend bool operator==(const FrozenChecksum&, const FrozenChecksum&) = default;
};

}  // namespace trainer
