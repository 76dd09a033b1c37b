#pragma once

#include <array>
#include <cstdint>

#include "engine/config/layer_spec.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

struct UpsampleAttributes {
  Interpolation mode = Interpolation::nearest;
  /// bilinear: whether the centres of the first and the last pixels of both images lie on each other, instead of the
  /// images' borders.
  bool align_corners = false;
  /// (height, width): how many times the input's size the output has. 0: that follows from the sizes alone, which is
  /// another rounding.
  Pair scale{0, 0};
  friend bool operator==(const UpsampleAttributes&, const UpsampleAttributes&) = default;
};

/// inputs: x (N, H, W, C); outputs: y (N, H', W', C): as torch.nn.Upsample with `scale` or, where that is 0, of `size`,
/// which may be smaller too. Positions are computed as PyTorch does, in f32, along each axis, with r = 1 / scale or
/// size / size': nearest takes min(⌊i·r⌋, size − 1); bilinear goes between ⌊s⌋ and ⌊s⌋ + 1, of which there is the last,
/// at s = max(0, r·(i + ½) − ½), with align_corners at s = i·(size − 1) / (size' − 1). Throws ShapeError.
Op upsample_op(const TensorType& x, const UpsampleAttributes& attributes, const Pair& size);
/// inputs: dy; outputs: dx.
Op upsample_backward_op(const Op& upsample);

}  // namespace trainer
