#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Normalisation of each sample and group of channels with biased variance (Wu and He, 2018), as PyTorch's GroupNorm:
/// over a group's channels and all dimensions between the batch and the channels. With as many groups as channels it is
/// PyTorch's InstanceNorm2d. Then ReLU where `relu` (set by the fusion pass).
struct GroupNormAttributes {
  std::int64_t groups = 1;  ///< divides the channels
  double eps = 1e-5;
  bool affine = true;
  bool relu = false;
  friend bool operator==(const GroupNormAttributes&, const GroupNormAttributes&) = default;
};

/// inputs: x (N, …, C)[, weight (C), bias (C)]; outputs: y, mean (N, groups), reciprocal standard deviation (N,
/// groups). y may be stored over x where no gradient reads x.
Op groupnorm_op(const TensorType& x, const GroupNormAttributes& attributes);
/// y of `groupnorm` once more, bit for bit, from the mean and the deviation it found. inputs: x, mean, rstd[, weight,
/// bias]; outputs: y, which may be stored over x.
Op groupnorm_normalize_op(const Op& groupnorm);
/// inputs: dy, x, mean, rstd[, weight[, bias where relu]]; outputs: dx[, dweight, dbias]. dx may be stored over dy.
/// Where ReLU was applied, y is not read: whether it was above 0 (before y was rounded to 16 bits, if it was) is
/// computed anew from x, as the forward pass computed it.
Op groupnorm_backward_op(const Op& groupnorm);

}  // namespace trainer
