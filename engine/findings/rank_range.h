#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// How many ranks there may be: `--ranks 4` or `--ranks 1..8` of `trainer fit`.
struct RankRange {
  std::int64_t lowest = 1, highest = 1;

  bool is_one() const { return lowest == highest; }
  /// Those that are looked at, ascending: the lowest, the powers of two, and the highest.
  std::vector<std::int64_t> counts() const;
};

/// Throws ConfigError.
RankRange read_rank_range(const std::string& text);

/// "1", "1 and 2", "1, 2 and 4".
std::string counts_text(const std::vector<std::int64_t>& counts, const char* last = "and");

}  // namespace trainer
