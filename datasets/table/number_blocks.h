#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace trainer {

/// Numbers that are appended one by one and later taken block by block, each block's memory given back behind it: no
/// more is held on the way to f32 than these 8 bytes a number.
class NumberBlocks {
 public:
  static constexpr std::size_t block_size = 1 << 16;

  void append(double value) {
    if (blocks_.empty() || blocks_.back().size() == block_size) blocks_.emplace_back().reserve(block_size);
    blocks_.back().push_back(value);
  }
  std::size_t size() const { return blocks_.empty() ? 0 : (blocks_.size() - 1) * block_size + blocks_.back().size(); }
  double operator[](std::size_t i) const { return blocks_[i / block_size][i % block_size]; }
  std::size_t num_blocks() const { return blocks_.size(); }
  std::vector<double> take_block(std::size_t block) { return std::exchange(blocks_[block], {}); }

 private:
  std::vector<std::vector<double>> blocks_;  ///< all but the last one full
};

}  // namespace trainer
