#pragma once

#include "engine/config/layer_spec.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

struct ActivationAttributes {
  Activation function = Activation::relu;
  GeluApproximation approximate = GeluApproximation::none;
  friend bool operator==(const ActivationAttributes&, const ActivationAttributes&) = default;
};

/// Whether the gradient is read off the output (relu, tanh, sigmoid) or needs the input (gelu, silu).
constexpr bool gradient_reads_output(Activation function) {
  return function == Activation::relu || function == Activation::tanh || function == Activation::sigmoid;
}

/// inputs: x; outputs: y, which may be stored over x where no gradient reads x. gelu is the exact one with erf
/// unless `approximate` says tanh.
Op activation_op(const TensorType& x, const ActivationAttributes& attributes);
/// inputs: dy, and y or x as gradient_reads_output tells; outputs: dx, which may be stored over dy.
Op activation_backward_op(const TensorType& x, const ActivationAttributes& attributes);

}  // namespace trainer
