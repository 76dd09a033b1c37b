#pragma once

#include <cstddef>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Normalisation over the last dimension with biased variance (Ba et al., 2016), as PyTorch's LayerNorm. With `adds`,
/// set by the fusion pass, the forward op takes the sum with an addend first, and the backward op adds a gradient.
/// Without `centres` it is RMSNorm (Zhang and Sennrich, 2019): x · weight / √(mean of squares + eps), and there are no
/// means and no biases among the operands.
struct LayerNormAttributes {
  double eps = 1e-5;
  bool affine = true;
  bool centres = true;
  bool adds = false;
  friend bool operator==(const LayerNormAttributes&, const LayerNormAttributes&) = default;
};

/// inputs: x (…, C)[, weight (C), bias (C)]; outputs: y, mean (rows), rstd (rows), where rows are all leading elements,
/// rank 1. rstd is the reciprocal standard deviation, without `centres` the reciprocal root mean square. y may be
/// stored over x.
Op layernorm_op(const TensorType& x, const LayerNormAttributes& attributes);
/// inputs: dy, x, mean, rstd[, weight]; outputs: dx[, dweight, dbias], without `centres` neither mean nor dbias. dx may
/// be stored over dy.
Op layernorm_backward_op(const Op& layernorm);
/// `layernorm` of the sum of x and an addend of its type. inputs: those of `layernorm`, addend; outputs: those of
/// `layernorm`, and sum = x + addend, rounded to its type, of which y, mean and rstd are, bit for bit as by two ops.
/// sum may be stored over x, y over the addend.
Op layernorm_adding_op(const Op& layernorm);
/// inputs: those of `layernorm_backward`, of which x is the sum, and a gradient of x's type; outputs: the same, dx with
/// that gradient added. dx may be stored over dy.
Op layernorm_adding_backward_op(const Op& layernorm_backward);

/// Where operands stand that do not always.
struct LayerNormPlaces {
  std::size_t rstd = 2;           ///< among the forward op's outputs
  std::size_t backward_rstd = 3;  ///< among the backward op's inputs, in front of the weight
};
inline LayerNormPlaces layernorm_places(const LayerNormAttributes& attributes) {
  return attributes.centres ? LayerNormPlaces{} : LayerNormPlaces{1, 2};
}

}  // namespace trainer
