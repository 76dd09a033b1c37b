#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace trainer {

/// Heap that is kept for when there is none left: what still must be done then (a checkpoint's description, the last
/// events) is made of many small pieces.
class HeapReserve {
 public:
  HeapReserve() {
    for (std::unique_ptr<std::byte[]>& block : blocks_) block.reset(new std::byte[block_bytes]);
  }
  void give_back() noexcept {
    for (std::unique_ptr<std::byte[]>& block : blocks_) block.reset();
  }

 private:
  /// Small enough that the system's allocator takes it from the heap and gives it back there.
  static constexpr std::size_t block_bytes = std::size_t{32} << 10;
  std::array<std::unique_ptr<std::byte[]>, 32> blocks_;
};

}  // namespace trainer
