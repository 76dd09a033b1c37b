#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/text/token_id.h"

namespace trainer {

/// Two tokens that stand beside each other, and the one that may take their place.
struct TokenMerge {
  TokenId left = 0, right = 0, result = 0;
  friend bool operator==(const TokenMerge&, const TokenMerge&) = default;
};

/// Merges by their pair. Immutable.
class MergeTable {
 public:
  struct Entry {
    std::uint64_t pair = UINT64_MAX;
    std::uint32_t rank = 0;  ///< the lower is merged first
    TokenId result = 0;
  };

  MergeTable() : MergeTable(std::span<const TokenMerge>()) {}
  /// In the order of their ranks. Of a pair that stands there twice the later one counts, as `tokenizers` reads it.
  explicit MergeTable(std::span<const TokenMerge> merges);

  /// Null where the two are not merged.
  const Entry* find(TokenId left, TokenId right) const {
    const std::uint64_t pair = pair_of(left, right);
    for (std::size_t slot = hash_of(pair) & mask_;; slot = (slot + 1) & mask_) {
      if (entries_[slot].pair == pair) return &entries_[slot];
      if (entries_[slot].pair == UINT64_MAX) return nullptr;
    }
  }

 private:
  static std::uint64_t pair_of(TokenId left, TokenId right) { return std::uint64_t{left} << 32U | right; }
  static std::uint64_t hash_of(std::uint64_t pair) {
    const std::uint64_t hash = pair * 0x9E3779B97F4A7C15U;
    return hash ^ hash >> 32U;
  }

  std::vector<Entry> entries_;  ///< open addressing; a power of two, at most half of them taken
  std::size_t mask_ = 0;
};

}  // namespace trainer
