#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer {

/// A free block, ordered by size, then by its segment's place in the order of acquisition, then by offset.
/// Addresses play no part, so the order is the same on every device and in simulation.
struct FreeBlock {
  std::int64_t size = 0;     ///< bytes
  std::int64_t segment = 0;  ///< number of the segment: grows with every acquisition
  std::int64_t offset = 0;   ///< bytes from the start of the segment
  std::int32_t record = -1;  ///< the allocator's record of the block

  friend bool operator<(const FreeBlock& a, const FreeBlock& b) {
    if (a.size != b.size) return a.size < b.size;
    if (a.segment != b.segment) return a.segment < b.segment;
    return a.offset < b.offset;
  }
};

/// The free blocks of one pool in a sorted array: at the tens to thousands of blocks a training step has, it is
/// faster than a tree, and it does not touch the heap within its reserved capacity.
class FreeBlocks {
 public:
  /// Room for `num_blocks` blocks; insert never allocates up to there.
  void reserve(std::size_t num_blocks) { blocks_.reserve(num_blocks); }
  bool empty() const { return blocks_.empty(); }
  std::size_t size() const { return blocks_.size(); }
  const FreeBlock& operator[](std::size_t position) const { return blocks_[position]; }

  /// Position of the best fit: the first block of at least `size` bytes; size() where there is none.
  std::size_t best_fit(std::int64_t size) const { return position_of({size, -1, -1, -1}); }
  void insert(const FreeBlock& block) {
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(position_of(block)), block);
  }
  void erase(const FreeBlock& block) { erase_at(position_of(block)); }
  void erase_at(std::size_t position) { blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(position)); }

 private:
  std::size_t position_of(const FreeBlock& block) const {
    std::size_t first = 0;
    for (std::size_t count = blocks_.size(); count > 0;) {
      const std::size_t half = count / 2;
      if (blocks_[first + half] < block) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first;
  }

  std::vector<FreeBlock> blocks_;
};

}  // namespace trainer
