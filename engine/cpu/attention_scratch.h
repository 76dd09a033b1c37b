#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/cpu/attention_weights.h"
#include "engine/cpu/cpu_context.h"
#include "engine/cpu/panel_product.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/attention.h"

namespace trainer {

/// Queries that a block of keys is brought into the cache for, and keys of such a block.
inline constexpr std::int64_t most_block_queries = 128, most_block_keys = 96;
/// Queries whose scores are computed at once: those of a block of keys stay in the first cache.
inline constexpr std::int64_t most_group_queries = 64;

/// Hands out parts of a thread's scratch, or counts them: each begins at a cache line.
class ScratchParts {
 public:
  explicit ScratchParts(float* first) : next_(first) {}

  float* take(std::int64_t num_floats) {
    float* const part = next_;
    num_floats_ += padded_columns(num_floats);
    if (next_ != nullptr) next_ += padded_columns(num_floats);
    return part;
  }
  std::int64_t num_floats() const { return num_floats_; }

 private:
  float* next_;
  std::int64_t num_floats_ = 0;
};

/// Some queries of a block, and the keys of a block of keys that one of them sees.
struct QueryGroup {
  std::int64_t first_query = 0, num_panels = 0;
  KeyRange keys;

  std::int64_t lanes() const { return num_panels * panel_columns; }
};

/// Calls function(group, lane) for queries [first_query, first_query + num_queries) in groups of `group_panels`, `lane`
/// being the group's first query in the block, unless none of the group sees a key of `block`.
template <typename Function>
void for_each_group(const Visibility& visibility, std::int64_t first_query, std::int64_t num_queries,
                    std::int64_t group_panels, const KeyRange& block, Function&& function) {
  for (std::int64_t lane = 0; lane < num_queries; lane += group_panels * panel_columns) {
    const std::int64_t count = std::min(group_panels * panel_columns, num_queries - lane);
    const std::int64_t first = first_query + lane;
    const KeyRange seen = visibility.of_queries(first, first + count - 1);
    const KeyRange keys{std::max(seen.begin, block.begin), std::min(seen.end, block.end)};
    if (keys.begin < keys.end) function(QueryGroup{first, padded_columns(count) / panel_columns, keys}, lane);
  }
}

/// Threads for `num_tasks` of an op over so many pairs of queries and keys.
inline int attention_threads(const AttentionShape& shape, std::int64_t num_tasks, const CpuContext& context) {
  const double elements = static_cast<double>(shape.samples * shape.heads) * static_cast<double>(shape.queries) *
                          static_cast<double>(shape.keys);
  if (elements <= static_cast<double>(serial_elements) / 4) return 1;
  return static_cast<int>(std::min<std::int64_t>(context.num_threads, num_tasks));
}

}  // namespace trainer
