#pragma once

#include "engine/config/layer_spec.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

struct ActivationAttributes {
  Activation function = Activation::relu;
  GeluApproximation approximate = GeluApproximation::none;
  double slope = 0;  ///< of leaky_relu below 0; 0 for all others
  friend bool operator==(const ActivationAttributes&, const ActivationAttributes&) = default;
};

/// Whether the gradient is read off the output, which tells where the input was, or needs the input. hardsigmoid's
/// output is 1 from the last number below 3 on.
constexpr bool gradient_reads_output(const ActivationAttributes& attributes) {
  switch (attributes.function) {
    case Activation::relu:
    case Activation::tanh:
    case Activation::sigmoid:
    case Activation::relu6:
    case Activation::hardsigmoid:
      return true;
    case Activation::leaky_relu:
      return attributes.slope >= 0;
    case Activation::gelu:
    case Activation::silu:
    case Activation::hardswish:
      return false;
  }
  return false;
}

/// inputs: x; outputs: y, which may be stored over x where no gradient reads x. gelu is the exact one with erf
/// unless `approximate` says tanh. relu6 = min(max(x, 0), 6), hardsigmoid = relu6(x + 3) / 6, hardswish = x ·
/// hardsigmoid; what is NaN stays NaN.
Op activation_op(const TensorType& x, const ActivationAttributes& attributes);
/// inputs: dy, and y or x as gradient_reads_output tells; outputs: dx, which may be stored over dy. Slopes at kinks are
/// PyTorch's: of leaky_relu at 0 that below it, of relu6 and hardsigmoid at both ends 0, of hardswish at −3 0 and at 3
/// that above it.
Op activation_backward_op(const TensorType& x, const ActivationAttributes& attributes);

}  // namespace trainer
