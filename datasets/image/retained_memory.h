#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trainer {

/// Memory that is given out piece by piece and taken back all at once. What it has once held, or was reserved, it gives
/// out again without an allocation.
class RetainedMemory {
 public:
  static constexpr std::size_t alignment = 64;
  /// What it keeps of a reservation for itself.
  static constexpr std::int64_t own_bytes = alignment;
  /// What a piece takes.
  static constexpr std::int64_t piece_bytes(std::int64_t num_bytes) {
    constexpr auto unit = static_cast<std::int64_t>(alignment);
    return (std::max<std::int64_t>(num_bytes, 1) + unit - 1) / unit * unit;
  }

  RetainedMemory() = default;
  ~RetainedMemory() { release(); }
  RetainedMemory(const RetainedMemory&) = delete;
  RetainedMemory& operator=(const RetainedMemory&) = delete;

  /// Before anything is given out: allocates so much that pieces of `num_bytes` − own_bytes together take no
  /// allocation any more. std::bad_alloc.
  void reserve(std::int64_t num_bytes);
  /// Undefined bytes until take_back(), aligned; null where the system has none.
  void* allocate(std::size_t num_bytes) noexcept;
  /// The same; std::bad_alloc where the system has none.
  std::uint8_t* allocate_bytes(std::int64_t num_bytes);
  /// Nothing that was given out is used any more.
  void take_back() noexcept;
  /// Bytes that it has allocated.
  std::size_t capacity() const { return capacity_; }

 private:
  struct Block;

  bool add_block(std::size_t num_bytes) noexcept;
  void release() noexcept;

  Block* blocks_ = nullptr;  ///< the newest first, from which pieces are cut
  std::size_t newest_size_ = 0;
  std::size_t used_of_newest_ = 0;  ///< with the block's own beginning
  std::size_t used_ = 0;            ///< of all
  std::size_t capacity_ = 0;
  std::size_t least_block_ = 0;  ///< what was once used at a time
};

}  // namespace trainer
