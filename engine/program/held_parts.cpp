#include "engine/program/held_parts.h"

#include <algorithm>

#include "engine/ops/rank_parts.h"

namespace trainer {
namespace {

/// Bytes [begin, begin + count) of a tensor.
struct ByteRange {
  std::int64_t begin = 0, count = 0;
};

std::vector<ByteRange> held_ranges(const TensorPart& part, std::int64_t num_ranks, std::int64_t rank) {
  const ElementRange range = rank_part(part.num_elements, num_ranks, rank);
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

std::vector<HeldRange> held_of(const TensorPart& part, std::int64_t num_ranks, std::int64_t rank, std::int64_t offset,
                               std::int64_t num_bytes) {
  std::vector<HeldRange> held;
  std::int64_t before = 0;  // in the buffer
  for (const ByteRange& range : held_ranges(part, num_ranks, rank)) {
    const std::int64_t begin = std::max(offset, range.begin);
    const std::int64_t end = std::min(offset + num_bytes, range.begin + range.count);
    if (begin < end) held.push_back({begin, before + begin - range.begin, end - begin});
    before += range.count;
  }
  return held;
}

TensorType part_type(const TensorPart& part, std::int64_t num_ranks, std::int64_t rank) {
  const ElementRange range = rank_part(part.num_elements, num_ranks, rank);
  if (part.whole.dtype == DType::u8 && range.count > 0) return moment_type(range.count);
  return {part.whole.dtype, {range.count}};
}

}  // namespace trainer
