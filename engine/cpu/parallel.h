#pragma once

#include <algorithm>
#include <cstdint>

namespace trainer {

/// Loops with less work than this (elements read and written) run on one thread: waking the others costs more.
inline constexpr std::int64_t serial_elements = 1 << 14;

/// Calls task(i) for i in [0, num_tasks), each thread a contiguous range. Which thread runs a task must not matter to
/// its result: then the result does not depend on the number of threads.
template <typename Task>
void parallel_tasks(int num_threads, std::int64_t num_tasks, Task&& task) {
  if (num_threads == 1 || num_tasks == 1) {
    for (std::int64_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (std::int64_t i = 0; i < num_tasks; ++i) task(i);
}

/// Calls loop(begin, end) over blocks of [0, num_elements), each a multiple of 64 elements but the last.
template <typename Loop>
void parallel_elements(int num_threads, std::int64_t num_elements, Loop&& loop) {
  constexpr std::int64_t block = 1 << 13;
  if (num_elements <= serial_elements) {
    if (num_elements > 0) loop(std::int64_t{0}, num_elements);
    return;
  }
  parallel_tasks(num_threads, (num_elements + block - 1) / block,
                 [&](std::int64_t i) { loop(i * block, std::min(num_elements, (i + 1) * block)); });
}

/// A sum over rows is split into parts of fixed size, added in order at the end: the same result for any number of
/// threads.
struct RowParts {
  std::int64_t rows = 0, part_rows = 1, num_parts = 0;

  std::int64_t begin(std::int64_t part) const { return part * part_rows; }
  std::int64_t end(std::int64_t part) const { return std::min(rows, (part + 1) * part_rows); }
};
inline RowParts row_parts(std::int64_t rows, std::int64_t min_part_rows, std::int64_t max_parts = 64) {
  const std::int64_t part_rows = std::max({min_part_rows, (rows + max_parts - 1) / max_parts, std::int64_t{1}});
  return {rows, part_rows, (rows + part_rows - 1) / part_rows};
}

}  // namespace trainer
