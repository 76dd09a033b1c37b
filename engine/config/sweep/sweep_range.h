#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// What a text like "16..512:*2" stands for, or what is wrong with it.
struct SweepRange {
  std::vector<std::string> values;  ///< in the order counted; empty where there is a mistake
  std::string mistake;
  std::string expectation;  ///< what would be right; may be empty
};

/// Reads one range of Note [Sweeps] (engine/config/sweep/sweep_grid.h). Nothing where the text does not begin as one,
/// with a number and "..".
std::optional<SweepRange> read_sweep_range(std::string_view text);

}  // namespace trainer
