#pragma once

#include <cstdint>
#include <limits>

#include "engine/simd.h"

// Loops over rows of channels, f32, of batch norm and group norm. Statistics are of any rows; a group's channels have
// the same ones.

namespace trainer {

/// Rows summed in f32 before they are added to an f64 sum: bounds the rounding error whatever the batch.
inline constexpr std::int64_t rows_per_f32_sum = 64;

/// Note [Normalised again]
/// The backward pass decides by y whether a gradient passes ReLU, and checkpointing makes y anew. Both compute it from
/// x instead of reading it, and must come to the bits that the forward pass came to. So all three take the statistics
/// as the f32 numbers that are kept, turn them into a line for each channel (normalization_lines), and apply the line
/// by this one expression. A compiler contracts it to a fused multiply-add everywhere or nowhere, as long as the
/// callers' files are compiled with the same options; and the callers are TRAINER_SIMD, of which the loader picks the
/// same level.
TRAINER_SIMD_INLINE float normalized(float x, float scale, float offset) { return x * scale + offset; }

/// scale = weight · rstd and offset = bias − mean · scale, over the channels; a null weight is 1, a null bias 0.
void normalization_lines(const float* mean, const float* rstd, const float* weight, const float* bias,
                         std::int64_t channels, float* scale, float* offset);

/// Of x's rows, the one to centre the moments of all on: wherever it lies in an image, not in its first corner, where
/// a convolution that pads leaves other numbers than elsewhere.
constexpr std::int64_t shift_row(std::int64_t rows) { return rows * 55 / 89; }

/// Adds to first[c] the sum of x − shift, to second[c] that of its square, over some rows. Centring on a value of the
/// data keeps the difference of the two exact enough where the mean is large against the deviation.
void sum_moments(const float* x, const float* shift, std::int64_t rows, std::int64_t channels, double* first,
                 double* second);

/// NaN, than which nothing is greater.
inline constexpr float no_ceiling = std::numeric_limits<float>::quiet_NaN();

/// y = the lines of x, then ReLU, of which nothing is above the ceiling.
void scale_rows(const float* x, const float* scale, const float* offset, bool relu, float* y, std::int64_t rows,
                std::int64_t channels, float ceiling = no_ceiling);

/// What both passes of a gradient over the rows read. g is dy, or dy where the line of x is above 0 and below the
/// ceiling if there is a line: where y was.
struct GradientRows {
  const float *dy, *x;          // (rows, channels)
  const float *scale, *offset;  // (channels); null without ReLU
  std::int64_t channels;
  float ceiling = no_ceiling;
};

/// Adds to first[c] the sum of g, to second[c] that of g · (x − mean), over some rows.
void sum_gradients(const GradientRows& of, const float* mean, std::int64_t rows, double* first, double* second);

/// dx = g · a[c] + x · b[c] + d[c]; dx may be dy.
void combine_rows(const GradientRows& of, const float* a, const float* b, const float* d, float* dx, std::int64_t rows);

/// Adds up the sums of all parts into those of the first, in order.
void add_parts(double* sums, std::int64_t num_parts, std::int64_t count);

}  // namespace trainer
