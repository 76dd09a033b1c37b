#pragma once

#include "cuda/library/matmul.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// The product that a linear op, forward or backward, is:
///   y (rows, out) = x (rows, in) · Wᵀ, with bias and activation as epilogue
///   dx (rows, in) = dy (rows, out) · W, with the slope of the activation that made x where asked for
///   dW (out, in) = dyᵀ · x, with db, the sums of dyᵀ over the rows, where the layer has a bias
MatmulCall linear_call(const Op& op, bool tf32);

}  // namespace trainer::cuda
