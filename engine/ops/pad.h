#pragma once

#include <array>
#include <cstdint>

#include "engine/config/layer_spec.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

struct PadAttributes {
  Sides size{0, 0, 0, 0};
  PadMode mode = PadMode::zeros;
  double value = 0;  ///< zeros: the number
  friend bool operator==(const PadAttributes&, const PadAttributes&) = default;
};

/// inputs: x (N, H, W, C); outputs: y (N, H + top + bottom, W + left + right, C), as PyTorch's ConstantPad2d,
/// ReflectionPad2d and ReplicationPad2d. Throws ShapeError where a mirrored border is not smaller than the image.
Op pad_op(const TensorType& x, const PadAttributes& attributes);
/// inputs: dy; outputs: dx.
Op pad_backward_op(const Op& pad);

}  // namespace trainer
