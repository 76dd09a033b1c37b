#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Batch normalisation over N, H, W for each channel (Ioffe and Szegedy, 2015), as PyTorch's BatchNorm2d: biased
/// variance normalises, unbiased variance enters the running one. Then the sum with an addend of x's type where `adds`,
/// then ReLU where `relu` (set by the fusion passes).
struct BatchNorm2dAttributes {
  double eps = 1e-5;
  double momentum = 0.1;  ///< running = (1 − momentum) · running + momentum · batch
  bool affine = true;
  bool relu = false;
  bool adds = false;
  friend bool operator==(const BatchNorm2dAttributes&, const BatchNorm2dAttributes&) = default;
};

/// Training. inputs: x (N, H, W, C), running_mean (C), running_var (C) [both modified][, weight (C), bias (C)][,
/// addend]; outputs: y, mean (C), reciprocal standard deviation (C). y may be stored over the addend, and over x where
/// no gradient reads x.
Op batchnorm2d_op(const TensorType& x, const BatchNorm2dAttributes& attributes);
/// y of `batchnorm2d` once more, bit for bit, from the mean and the deviation it found: running statistics stay as they
/// are. inputs: x, mean, rstd[, weight, bias][, addend]; outputs: y, which may be stored over x or the addend.
Op batchnorm2d_normalize_op(const Op& batchnorm2d);
/// Evaluation. The same inputs, none modified; outputs: y, which may be stored over x or the addend.
Op batchnorm2d_inference_op(const TensorType& x, const BatchNorm2dAttributes& attributes);
/// inputs: dy, x, mean, rstd[, weight[, bias where relu]]; outputs: dx[, dweight, dbias]. dx may be stored over dy.
/// Where ReLU was applied, y is not read: whether it was above 0 (before y was rounded to 16 bits, if it was) is
/// computed anew from x, as the forward pass computed it.
/// With an addend and ReLU it also makes the addend's gradient: inputs: dy, x, mean, rstd[, weight], y; outputs:
/// dx[, dweight, dbias], daddend, which is dy where y was above 0. dx may be stored over y, daddend over dy. Without
/// ReLU the addend's gradient is dy itself, and the op is that without an addend.
Op batchnorm2d_backward_op(const Op& batchnorm2d);
/// A forward op without ReLU, with an addend, and with ReLU behind the sum where `relu`.
Op batchnorm2d_adding_op(const Op& forward, bool relu);

}  // namespace trainer
