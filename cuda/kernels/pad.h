#pragma once

#include <array>
#include <cstdint>

#include "cuda/kernels/resized_shape.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// What the border of a padded image takes: a number, the image mirrored at its edges, which are not repeated, or its
/// edges.
enum class PadBorder : std::uint8_t { number, reflection, edge };

struct PadOptions {
  PadBorder border = PadBorder::number;
  std::array<std::int64_t, 2> before{0, 0};  ///< rows above, columns left
  float value = 0;                           ///< of a border of one number
};

/// y: x with the border around it; a mirrored one is on each side smaller than x. Bytes: x and y once. FLOPs: none.
void pad_forward(DType type, const void* x, void* y, const ResizedShape& shape, const PadOptions& options,
                 Stream stream);

/// dx: the sum of dy over the elements that are each element of x; every element is written. Bytes: dx and dy once.
/// FLOPs: 1 an element of dy.
void pad_backward(DType type, const void* dy, void* dx, const ResizedShape& shape, const PadOptions& options,
                  Stream stream);

}  // namespace trainer::cuda
