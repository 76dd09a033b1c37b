#pragma once

#include "cuda/kernels/resized_shape.h"
#include "engine/shape.h"

namespace trainer::cuda {

/// Of x and y, both (N, H, W, C).
inline ResizedShape resized_shape_of(const Shape& x, const Shape& y) {
  return {.images = x[0], .channels = x[3], .x = {x[1], x[2]}, .y = {y[1], y[2]}};
}

}  // namespace trainer::cuda
