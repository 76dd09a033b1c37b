#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Normalisation over the last dimension with biased variance (Ba et al., 2016), as PyTorch's LayerNorm.
struct LayerNormAttributes {
  double eps = 1e-5;
  bool affine = true;
  friend bool operator==(const LayerNormAttributes&, const LayerNormAttributes&) = default;
};

/// inputs: x (…, C)[, weight (C), bias (C)]; outputs: y, mean (rows), reciprocal standard deviation (rows),
/// where rows are all leading elements, rank 1.
Op layernorm_op(const TensorType& x, const LayerNormAttributes& attributes);
/// inputs: dy, x, mean, rstd[, weight]; outputs: dx[, dweight, dbias]. dx may be stored over dy.
Op layernorm_backward_op(const Op& layernorm);

}  // namespace trainer
