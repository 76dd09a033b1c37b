#pragma once

#include "cuda/kernels/pool2d_shape.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// The pooling of x to y, both (N, H, W, C).
inline Pool2dShape pool2d_shape_of(const Pool2dAttributes& attributes, const Shape& x, const Shape& y) {
  return {.images = x[0],
          .channels = x[3],
          .x = {x[1], x[2]},
          .y = {y[1], y[2]},
          .kernel = attributes.kernel,
          .stride = attributes.stride,
          .padding = attributes.padding};
}

}  // namespace trainer::cuda
