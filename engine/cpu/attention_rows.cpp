#include "engine/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/parallel.h"
#include "engine/half.h"
#include "engine/rotation.h"
#include "engine/simd.h"

namespace trainer {
namespace {

TRAINER_SIMD void fill_rotations(float position, const float* frequencies, std::int64_t count, float* row) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const Rotation rotation = rotation_of(position * frequencies[i]);
    row[i] = rotation.cosine;
    row[count + i] = rotation.sine;
  }
}

TRAINER_SIMD void rotate_pairs(float* __restrict row, const float* __restrict angles, std::int64_t half, float sign) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float x = row[i], y = row[half + i], cosine = angles[i], sine = sign * angles[half + i];
    row[i] = x * cosine - y * sine;
    row[half + i] = y * cosine + x * sine;
  }
}

}  // namespace

HeadOperands head_operands(const AttentionShape& shape, DType type, bool packed, void* const* addresses) {
  const std::int64_t of_q = shape.heads * shape.width, of_k = shape.kv_heads * shape.width;
  const auto at = [&](std::size_t operand) { return static_cast<std::byte*>(addresses[operand]); };
  if (!packed)
    return {{at(0), type, shape.queries, of_q, shape.width},
            {at(1), type, shape.keys, of_k, shape.width},
            {at(2), type, shape.keys, of_k, shape.width}};
  const HeadRows q{at(0), type, shape.queries, of_q + 2 * of_k, shape.width};
  const auto element_bytes = static_cast<std::int64_t>(size_of(type));
  HeadOperands operands{q, q, q};
  operands.k.data += of_q * element_bytes;
  operands.v.data += (of_q + of_k) * element_bytes;
  return operands;
}

HeadRows output_rows(const AttentionShape& shape, DType type, void* address) {
  return {static_cast<std::byte*>(address), type, shape.queries, shape.heads * shape.width, shape.width};
}

RotaryTable::RotaryTable(const AttentionShape& shape, const AttentionAttributes& attributes)
    : positions_(std::max(shape.queries, shape.keys)) {
  if (attributes.rotary_base > 0) frequencies_ = rotary_frequencies(attributes, shape.width);
}

void RotaryTable::fill(float* table, int num_threads) const {
  if (frequencies_.empty()) return;
  parallel_tasks(num_threads, positions_,
                 [&](std::int64_t position) { fill_row(position, table + position * row_floats()); });
}

void RotaryTable::fill_row(std::int64_t position, float* row) const {
  fill_rotations(static_cast<float>(position), frequencies_.data(), static_cast<std::int64_t>(frequencies_.size()),
                 row);
}

void rotate_row(float* row, const float* angles, std::int64_t width) {
  if (angles != nullptr) rotate_pairs(row, angles, width / 2, 1.0F);
}
void rotate_row_back(float* row, const float* angles, std::int64_t width) {
  if (angles != nullptr) rotate_pairs(row, angles, width / 2, -1.0F);
}

TRAINER_SIMD void transpose_to_panel(const float* __restrict rows, std::int64_t num_rows, std::int64_t width,
                                     float factor, float* __restrict panel) {
  if (num_rows < panel_columns) std::fill_n(panel, width * panel_columns, 0.0F);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) panel[i * panel_columns + row] = factor * rows[row * width + i];
  }
}

TRAINER_SIMD void transpose_from_panel(const float* __restrict panel, const float* __restrict factors,
                                       std::int64_t width, float* __restrict rows) {
  for (std::int64_t row = 0; row < panel_columns; ++row) {
    for (std::int64_t i = 0; i < width; ++i) rows[row * width + i] = factors[row] * panel[i * panel_columns + row];
  }
}

TRAINER_SIMD void put_row(const Panels& panels, std::int64_t row, const float* from, std::int64_t width, float factor) {
  for (std::int64_t first = 0; first < width; first += panel_columns) {
    float* const to = panels.panel(first) + row * panel_columns;
    const std::int64_t count = std::min(panel_columns, width - first);
    for (std::int64_t i = 0; i < count; ++i) to[i] = factor * from[first + i];
    for (std::int64_t i = count; i < panel_columns; ++i) to[i] = 0;
  }
}

void take_row(const Panels& panels, std::int64_t row, std::int64_t width, float* to) {
  for (std::int64_t first = 0; first < width; first += panel_columns)
    std::copy_n(panels.panel(first) + row * panel_columns, std::min(panel_columns, width - first), to + first);
}

}  // namespace trainer
