#pragma once

#include <cstdint>

namespace trainer {

/// values = max(values, 0) in place, keeping NaN. oneDNN's fused ReLU turns NaN into 0, which would hide a diverged
/// layer behind it; a pass over what a product just wrote costs about 1 % of it.
void relu_in_place(float* values, std::int64_t count, int num_threads);

/// A bit for each positive number of `values` (rows, columns), in the layout of relu_mask_row_bytes with zeros in the
/// padding; and the reverse: 0 for each number whose bit is not set.
void relu_mask(const float* values, std::uint8_t* mask, std::int64_t rows, std::int64_t columns, int num_threads);
void apply_relu_mask(float* values, const std::uint8_t* mask, std::int64_t rows, std::int64_t columns, int num_threads);

}  // namespace trainer
