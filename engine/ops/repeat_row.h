#pragma once

#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// inputs: row (C); outputs: (rows, C), each of them that row.
Op repeat_row_op(const TensorType& row, std::int64_t rows);
/// The gradient of the row. inputs: dy (rows, C); outputs: the sum of its rows (C), made in f32 or more.
Op sum_rows_op(const Op& repeat_row);

}  // namespace trainer
