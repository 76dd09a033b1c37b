#pragma once

#include "cuda/library/matmul.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// The product that a linear op, forward or backward, is:
///   y (rows, out) = x (rows, in) · Wᵀ, with bias and activation as epilogue
///   dx (rows, in) = dy (rows, out) · W, with the slope of the activation that made x where asked for
///   dW (out, in) = dyᵀ · x, with db, the sums of dyᵀ over the rows, where the layer has a bias; or added to dW and db
MatmulCall linear_call(const Op& op, bool tf32);

/// DeviceModel::linear_fusions of every CUDA device. cuBLASLt's GELU approximates tanh to 2e-4 of its value even in
/// f32: no more than TF32's products are off, but a hundred times what f32 promises. So it is taken with TF32 only.
constexpr LinearFusions cuda_linear_fusions(bool tf32) { return {.relu_gradients = true, .gelu = tf32}; }

}  // namespace trainer::cuda
