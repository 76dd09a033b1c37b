#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trainer {

/// Positions of at most `most` values (at least 8) that draw the same curve: all where there are no more, else the
/// first, the last, and of equally long stretches the lowest, the highest and the first that is not finite. Ascending.
std::vector<std::size_t> thinned_positions(std::span<const double> values, std::size_t most);

}  // namespace trainer
