#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/text/merge_table.h"

namespace trainer {

/// Byte-pair encoding of one piece: as long as two neighbours can be merged, the two of the lowest rank are, of several
/// the leftmost. One thread's own; its memory is kept from piece to piece.
class PieceMerger {
 public:
  /// Takes the tokens of single bytes; those that they become stand at the front of `ids` then, and their number is
  /// returned. Short pieces take the square of their length, longer ones n log n.
  std::size_t merge(const MergeTable& merges, std::span<TokenId> ids);

 private:
  struct Candidate {
    std::uint32_t rank;
    TokenId left, right;  ///< what stood there; else it is out of date
    std::size_t at;
  };

  static std::size_t merge_short(const MergeTable& merges, std::span<TokenId> ids);
  std::size_t merge_long(const MergeTable& merges, std::span<TokenId> ids);
  void add_candidate(const MergeTable& merges, std::span<const TokenId> ids, std::size_t at);

  std::vector<Candidate> heap_;
  std::vector<std::size_t> next_, previous_;
};

}  // namespace trainer
