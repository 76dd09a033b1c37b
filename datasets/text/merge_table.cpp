#include "datasets/text/merge_table.h"

#include <bit>

namespace trainer {

MergeTable::MergeTable(std::span<const TokenMerge> merges) : entries_(std::bit_ceil(2 * merges.size() + 2)) {
  mask_ = entries_.size() - 1;
  std::uint32_t rank = 0;
  for (const TokenMerge& merge : merges) {
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t slot = hash_of(pair) & mask_;
    while (entries_[slot].pair != UINT64_MAX && entries_[slot].pair != pair) slot = (slot + 1) & mask_;
    entries_[slot] = {pair, rank++, merge.result};
  }
}

}  // namespace trainer
