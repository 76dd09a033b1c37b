#include "engine/program/held_parts.h"

#include <algorithm>

#include "engine/ops/rank_parts.h"

namespace trainer {
namespace {

bool has_stage(const TensorPart& part, const RankLayout& ranks) {
  return part.stages.empty() || std::find(part.stages.begin(), part.stages.end(), ranks.stage()) != part.stages.end();
}

/// The elements that this rank and those that share its data hold together, as they lie in its part of the tensor.
std::vector<ElementRange> elements_of_layer(const TensorPart& part, const RankLayout& ranks) {
  if (!has_stage(part, ranks)) return {};
  if (!part.axis) return {{0, part.num_elements}};
  const Shape& whole = part.whole.shape;
  std::int64_t outer = 1, inner = 1;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    if (axis < part.axis->axis) outer *= whole[axis];
    if (axis > part.axis->axis) inner *= whole[axis];
  }
  std::vector<ElementRange> elements;
  const std::vector<BatchPart> ranges = part.axis->ranges(whole, ranks.num_tensor, ranks.tensor_place());
  for (std::int64_t row = 0; row < outer; ++row)
    for (const BatchPart& range : ranges)
      if (range.count > 0)
        elements.push_back({(row * whole[part.axis->axis] + range.begin) * inner, range.count * inner});
  return elements;
}

std::int64_t num_elements(const std::vector<ElementRange>& ranges) {
  std::int64_t count = 0;
  for (const ElementRange& range : ranges) count += range.count;
  return count;
}

/// The elements that the rank holds.
std::vector<ElementRange> held_elements(const TensorPart& part, const RankLayout& ranks) {
  std::vector<ElementRange> elements = elements_of_layer(part, ranks);
  if (!part.is_cut) return elements;
  const ElementRange own = rank_part(num_elements(elements), ranks.num_data, ranks.data_place());
  std::vector<ElementRange> held;
  std::int64_t before = 0;
  for (const ElementRange& range : elements) {
    const std::int64_t begin = std::max(own.begin, before), end = std::min(own.begin + own.count, before + range.count);
    if (begin < end) held.push_back({range.begin + begin - before, end - begin});
    before += range.count;
  }
  return held;
}

/// Bytes [begin, begin + count) of a tensor.
struct ByteRange {
  std::int64_t begin = 0, count = 0;
};

std::vector<ByteRange> held_ranges(const TensorPart& part, const RankLayout& ranks) {
  const std::vector<ElementRange> elements = held_elements(part, ranks);
  if (elements.empty()) return {};
  std::vector<ByteRange> bytes;
  if (part.whole.dtype != DType::u8) {
    const auto size = static_cast<std::int64_t>(size_of(part.whole.dtype));
    bytes.reserve(elements.size());
    for (const ElementRange& range : elements) bytes.push_back({range.begin * size, range.count * size});
    return bytes;
  }
  require_internal(elements.size() == 1, "8-bit moments are cut along their elements");
  const ElementRange& range = elements.front();
  return {{range.begin, moment_code_bytes(range.count)},
          {moment_code_bytes(part.num_elements) + 4 * (range.begin / moment_block_elements),
           4 * num_moment_blocks(range.count)}};
}

}  // namespace

std::vector<HeldRange> held_of(const TensorPart& part, const RankLayout& ranks, std::int64_t offset,
                               std::int64_t num_bytes) {
  std::vector<HeldRange> held;
  std::int64_t before = 0;  // in the buffer
  for (const ByteRange& range : held_ranges(part, ranks)) {
    const std::int64_t begin = std::max(offset, range.begin);
    const std::int64_t end = std::min(offset + num_bytes, range.begin + range.count);
    if (begin < end) held.push_back({begin, before + begin - range.begin, end - begin});
    before += range.count;
  }
  return held;
}

bool gives_part(const TensorPart& part, const RankLayout& ranks) {
  if (!part.stages.empty() && ranks.stage() != part.stages.front()) return false;
  return (part.is_cut || ranks.data_place() == 0) && (part.axis || ranks.tensor_place() == 0);
}

TensorType layer_part_type(const TensorPart& part, const RankLayout& ranks) {
  if (!part.axis) return part.whole;
  return {part.whole.dtype, part.axis->own_shape(part.whole.shape, ranks.num_tensor, ranks.tensor_place())};
}

TensorType part_type(const TensorPart& part, const RankLayout& ranks) {
  if (!has_stage(part, ranks)) return {part.whole.dtype, {0}};
  if (!part.is_cut) return layer_part_type(part, ranks);
  const std::int64_t count = num_elements(held_elements(part, ranks));
  if (part.whole.dtype == DType::u8 && count > 0) return moment_type(count);
  return {part.whole.dtype, {count}};
}

}  // namespace trainer
