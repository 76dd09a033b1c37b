#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cpu/panel_product.h"
#include "engine/ops/attention.h"
#include "engine/ops/op.h"

namespace trainer {

/// One of q, k, v, y and their gradients: rows of a head's features, of f32 or 16 bit.
struct HeadRows {
  std::byte* data = nullptr;
  DType type = DType::f32;
  std::int64_t positions = 0;
  std::int64_t row_features = 0;  ///< of all that lies in a row of the tensor
  std::int64_t width = 0;         ///< of a head

  std::byte* row(std::int64_t sample, std::int64_t head, std::int64_t position) const {
    const std::int64_t first = (sample * positions + position) * row_features + head * width;
    return data + first * static_cast<std::int64_t>(size_of(type));
  }
};

struct HeadOperands {
  HeadRows q, k, v;
};
/// q, k and v, or their gradients, at `addresses`: one where they are packed, else three.
HeadOperands head_operands(const AttentionShape& shape, DType type, bool packed, void* const* addresses);
/// y or its gradient.
HeadRows output_rows(const AttentionShape& shape, DType type, void* address);

/// Cosines and sines of each position, in scratch.
class RotaryTable {
 public:
  RotaryTable(const AttentionShape& shape, const AttentionAttributes& attributes);

  std::int64_t num_floats() const { return positions_ * row_floats(); }
  void fill(float* table, int num_threads) const;
  bool rotates() const { return !frequencies_.empty(); }
  /// Those of one position, row_floats() of them, for rotate_row.
  void fill_row(std::int64_t position, float* row) const;
  /// Those of a position; null where nothing is rotated.
  const float* of(const float* table, std::int64_t position) const {
    return frequencies_.empty() ? nullptr : table + position * row_floats();
  }
  std::int64_t row_floats() const { return 2 * static_cast<std::int64_t>(frequencies_.size()); }

 private:
  std::int64_t positions_;
  std::vector<float> frequencies_;
};

/// Rotates pairs (i, i + width / 2) by `angles`, of RotaryTable; null: leaves them.
void rotate_row(float* row, const float* angles, std::int64_t width);
/// The same backwards.
void rotate_row_back(float* row, const float* angles, std::int64_t width);

/// panel[feature · 16 + row] = factor · rows[row · width + feature]; rows from `num_rows` to 16 are 0.
void transpose_to_panel(const float* rows, std::int64_t num_rows, std::int64_t width, float factor, float* panel);
/// rows[row · width + feature] = factors[row] · panel[feature · 16 + row] for 16 rows.
void transpose_from_panel(const float* panel, const float* factors, std::int64_t width, float* rows);

/// Row `row` of panels of padded_columns(width) columns = factor · from, and 0 behind it.
void put_row(const Panels& panels, std::int64_t row, const float* from, std::int64_t width, float factor);
/// The first `width` columns of it.
void take_row(const Panels& panels, std::int64_t row, std::int64_t width, float* to);

}  // namespace trainer
