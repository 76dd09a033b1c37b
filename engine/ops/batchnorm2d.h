#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Batch normalisation over N, H, W for each channel (Ioffe and Szegedy, 2015), as PyTorch's BatchNorm2d: biased
/// variance normalises, unbiased variance enters the running one. Then ReLU where `relu` (set by the fusion pass).
struct BatchNorm2dAttributes {
  double eps = 1e-5;
  double momentum = 0.1;  ///< running = (1 − momentum) · running + momentum · batch
  bool affine = true;
  bool relu = false;
  friend bool operator==(const BatchNorm2dAttributes&, const BatchNorm2dAttributes&) = default;
};

/// Training. inputs: x (N, H, W, C), running_mean (C), running_var (C) [both modified][, weight (C), bias (C)];
/// outputs: y, mean (C), reciprocal standard deviation (C). y may be stored over x only where no gradient reads x.
Op batchnorm2d_op(const TensorType& x, const BatchNorm2dAttributes& attributes);
/// y of `batchnorm2d` once more, bit for bit, from the mean and the deviation it found: running statistics stay as they
/// are. inputs: x, mean, rstd[, weight, bias]; outputs: y, which may be stored over x.
Op batchnorm2d_normalize_op(const Op& batchnorm2d);
/// Evaluation. The same inputs, none modified; outputs: y, which may be stored over x.
Op batchnorm2d_inference_op(const TensorType& x, const BatchNorm2dAttributes& attributes);
/// inputs: dy, x, mean, rstd[, weight[, bias where relu]]; outputs: dx[, dweight, dbias]. dx may be stored over dy.
/// Where ReLU was applied, y is not read: whether it was above 0 (before y was rounded to 16 bits, if it was) is
/// computed anew from x, as the forward pass computed it.
Op batchnorm2d_backward_op(const Op& batchnorm2d);

}  // namespace trainer
