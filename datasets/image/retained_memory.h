#pragma once

#include <cstddef>

namespace trainer {

/// Memory that is given out piece by piece and taken back all at once. What it has once held it gives out again without
/// an allocation.
class RetainedMemory {
 public:
  static constexpr std::size_t alignment = 64;

  RetainedMemory() = default;
  ~RetainedMemory() { release(); }
  RetainedMemory(const RetainedMemory&) = delete;
  RetainedMemory& operator=(const RetainedMemory&) = delete;

  /// Undefined bytes until take_back(), aligned; null where the system has none.
  void* allocate(std::size_t num_bytes) noexcept;
  /// Nothing that was given out is used any more.
  void take_back() noexcept;
  /// Bytes that it has allocated.
  std::size_t capacity() const { return capacity_; }

 private:
  struct Block;

  void release() noexcept;

  Block* blocks_ = nullptr;  ///< the newest first, from which pieces are cut
  std::size_t newest_size_ = 0;
  std::size_t used_of_newest_ = 0;  ///< with the block's own beginning
  std::size_t used_ = 0;            ///< of all
  std::size_t capacity_ = 0;
  std::size_t least_block_ = 0;  ///< what was once used at a time
};

}  // namespace trainer
