#pragma once

#include <cstdint>

#include "cuda/kernels/row_parts.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// Rows of channels, with a slope for each channel or one for all.
struct PreluShape {
  std::int64_t rows = 1, channels = 1;
  bool has_one_slope = true;
};

/// y = x where x is above 0, else weight · x; y may be x. Bytes: x and y once. FLOPs: 2 an element.
void prelu_forward(DType type, const void* x, const float* weight, void* y, const PreluShape& shape, Stream stream);

/// One f32 for each part of the rows and each channel.
constexpr std::int64_t prelu_backward_workspace_bytes(const PreluShape& shape) {
  return 4 * row_parts(shape.rows, shape.channels).num_parts * shape.channels;
}

/// dx = dy where x is above 0, else weight · dy; dweight = the sum of dy · x where it is not: of f32 over parts of the
/// rows, added up in f64. dx may be dy. Two launches. Bytes: dy, x and dx once, and the workspace, at most an eighth of
/// f32 x, twice. FLOPs: 5 an element.
void prelu_backward(DType type, const void* dy, const void* x, const float* weight, void* dx, float* dweight,
                    void* workspace, const PreluShape& shape, Stream stream);

}  // namespace trainer::cuda
