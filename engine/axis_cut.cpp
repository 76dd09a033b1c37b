#include "engine/axis_cut.h"

#include <numeric>

#include "engine/errors.h"

namespace trainer {

std::vector<BatchPart> AxisCut::ranges(const Shape& whole, std::int64_t num_ranks, std::int64_t place) const {
  if (sections.empty()) return place == 0 ? std::vector<BatchPart>{{0, whole[axis]}} : std::vector<BatchPart>{};
  require_internal(std::accumulate(sections.begin(), sections.end(), std::int64_t{0}) == whole[axis],
                   "sections make up an axis");
  std::vector<BatchPart> ranges;
  ranges.reserve(sections.size());
  std::int64_t first = 0;
  for (const std::int64_t length : sections) {
    const BatchPart own = part_of_batch(length, num_ranks, place);
    ranges.push_back({first + own.begin, own.count});
    first += length;
  }
  return ranges;
}

Shape AxisCut::own_shape(const Shape& whole, std::int64_t num_ranks, std::int64_t place) const {
  std::int64_t count = 0;
  for (const BatchPart& range : ranges(whole, num_ranks, place)) count += range.count;
  if (count == 0) return {0};
  Shape own = whole;
  own[axis] = count;
  return own;
}

}  // namespace trainer
