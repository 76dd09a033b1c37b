#include "engine/report/page/thinned_curve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainer {

std::vector<std::size_t> thinned_positions(std::span<const double> values, std::size_t most) {
  std::vector<std::size_t> positions;
  if (values.size() <= most) {
    positions.resize(values.size());
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    return positions;
  }
  constexpr std::size_t kept_of_stretch = 3;
  const std::size_t num_stretches = (most - 2) / kept_of_stretch;
  positions.push_back(0);
  for (std::size_t stretch = 0; stretch < num_stretches; ++stretch) {
    const std::size_t begin = values.size() * stretch / num_stretches;
    const std::size_t end = values.size() * (stretch + 1) / num_stretches;
    std::size_t lowest = end, highest = end;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(values[i])) {
        positions.push_back(i);
        break;
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(values[i])) continue;
      if (lowest == end || values[i] < values[lowest]) lowest = i;
      if (highest == end || values[i] > values[highest]) highest = i;
    }
    if (lowest != end) positions.insert(positions.end(), {lowest, highest});
  }
  positions.push_back(values.size() - 1);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

}  // namespace trainer
