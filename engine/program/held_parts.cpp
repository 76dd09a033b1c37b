#include "engine/program/held_parts.h"

#include <algorithm>

#include "engine/ops/rank_parts.h"

namespace trainer {
namespace {

/// Bytes [begin, begin + count) of a tensor.
struct ByteRange {
  std::int64_t begin = 0, count = 0;
};

ElementRange held_elements(const TensorPart& part, const RankLayout& ranks) {
  if (!part.stages.empty() && std::find(part.stages.begin(), part.stages.end(), ranks.stage()) == part.stages.end())
    return {};
  if (!part.is_cut) return {0, part.num_elements};
  return rank_part(part.num_elements, ranks.num_data, ranks.data_place());
}

std::vector<ByteRange> held_ranges(const TensorPart& part, const RankLayout& ranks) {
  const ElementRange range = held_elements(part, ranks);
  if (range.count == 0) return {};
  if (part.whole.dtype != DType::u8) {
    const auto size = static_cast<std::int64_t>(size_of(part.whole.dtype));
    return {{range.begin * size, range.count * size}};
  }
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
  return (part.is_cut || ranks.data_place() == 0) && ranks.tensor_place() == 0;
}

TensorType part_type(const TensorPart& part, const RankLayout& ranks) {
  const ElementRange range = held_elements(part, ranks);
  if (!part.is_cut && range.count > 0) return part.whole;
  if (part.whole.dtype == DType::u8 && range.count > 0) return moment_type(range.count);
  return {part.whole.dtype, {range.count}};
}

}  // namespace trainer
