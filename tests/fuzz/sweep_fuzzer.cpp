#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/errors.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

/// An argument of `trainer sweep` a line.
void read_fuzzed_sweep(std::string_view input) {
  std::vector<std::string> arguments;
  for (std::size_t start = 0; start < input.size();) {
    const std::size_t end = std::min(input.find('\n', start), input.size());
    arguments.emplace_back(input.substr(start, end - start));
    start = end + 1;
  }
  const SweepGrid grid(arguments);
  const std::vector<SweepPoint> points = grid.points();
  require_internal(!points.empty() && points.size() <= most_sweep_points, "a sweep has points, and not too many");
  for (const SweptKey& key : grid.keys()) {
    (void)grows_memory(key.key, key.values);
    (void)value_is_less(key.values.front(), key.values.back());
  }
  for (const SweepPoint* const point : {&points.front(), &points.back()})
    require_internal(grid.point(point->values).name == point->name, "a point is the one of its values");
}

}  // namespace trainer
