#include "engine/cpu/relu.h"

#include <algorithm>

#include "engine/cpu/parallel.h"
#include "engine/ops/linear.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void relu_loop(float* values, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) values[i] = values[i] < 0 ? 0 : values[i];
}

void mask_of_row(const float* values, std::uint8_t* mask, std::int64_t columns) {
  for (std::int64_t byte = 0; byte < relu_mask_row_bytes(columns); ++byte) {
    unsigned bits = 0;
    const std::int64_t first = byte * 8;
    for (std::int64_t j = first; j < std::min(columns, first + 8); ++j)
      bits |= static_cast<unsigned>(values[j] > 0) << (j - first);
    mask[byte] = static_cast<std::uint8_t>(bits);
  }
}

void mask_row(float* values, const std::uint8_t* mask, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j)
    if ((mask[j / 8] >> (j % 8) & 1) == 0) values[j] = 0;
}

/// Calls row_loop(row) for each row.
template <typename RowLoop>
void for_rows(std::int64_t rows, std::int64_t columns, int num_threads, RowLoop&& row_loop) {
  parallel_tasks(rows * columns <= serial_elements ? 1 : num_threads, rows, row_loop);
}

}  // namespace

void relu_mask(const float* values, std::uint8_t* mask, std::int64_t rows, std::int64_t columns, int num_threads) {
  for_rows(rows, columns, num_threads, [=](std::int64_t row) {
    mask_of_row(values + row * columns, mask + row * relu_mask_row_bytes(columns), columns);
  });
}

void apply_relu_mask(float* values, const std::uint8_t* mask, std::int64_t rows, std::int64_t columns,
                     int num_threads) {
  for_rows(rows, columns, num_threads, [=](std::int64_t row) {
    mask_row(values + row * columns, mask + row * relu_mask_row_bytes(columns), columns);
  });
}

void relu_in_place(float* values, std::int64_t count, int num_threads) {
  parallel_elements(num_threads, count,
                    [values](std::int64_t begin, std::int64_t end) { relu_loop(values, begin, end); });
}

}  // namespace trainer
