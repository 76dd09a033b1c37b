#pragma once

#include <array>
#include <cstdint>

#include "cuda/kernels/resized_shape.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

struct UpsampleOptions {
  bool bilinear = false;  ///< else nearest
  bool align_corners = false;
  std::array<std::int64_t, 2> scale{0, 0};  ///< (height, width); 0: the ratio of the sizes
};

/// y: each element of it from its place in x, as engine/ops/upsample.h tells. Bytes: x and y once. FLOPs: nearest none,
/// bilinear 8 an output.
void upsample_forward(DType type, const void* x, void* y, const ResizedShape& shape, const UpsampleOptions& options,
                      Stream stream);

/// dx: the sum of dy over the elements that came from each element of x, with their shares; every element is written.
/// Bytes: dx and dy once (bilinear dy up to four times, from the cache). FLOPs: nearest 1, bilinear 8 an output.
void upsample_backward(DType type, const void* dy, void* dx, const ResizedShape& shape, const UpsampleOptions& options,
                       Stream stream);

}  // namespace trainer::cuda
