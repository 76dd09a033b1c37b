#pragma once

#include <limits>

#include "engine/rank_layout.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// Batch normalisation over all dimensions but the last, the channels (Ioffe and Szegedy, 2015), as PyTorch's
/// BatchNorm2d of images (N, H, W, C) and BatchNorm1d of (N, C): biased variance normalises, unbiased variance enters
/// the running one. Then the sum with an addend of x's type where `adds`, then ReLU where `relu`, ReLU6 where `capped`
/// as well (set by the fusion passes).
struct BatchNorm2dAttributes {
  double eps = 1e-5;
  double momentum = 0.1;  ///< running = (1 − momentum) · running + momentum · batch
  bool affine = true;
  bool relu = false;
  bool capped = false;  ///< with relu, without an addend: nothing is above 6
  bool adds = false;
  bool given_sums = false;  ///< training only (set by engine/program/statistics_fusion.cpp)
  /// Of ranks that find mean and deviation together: Note [Batch norm over ranks] in batchnorm2d_over_ranks.h.
  RankGroup ranks{};
  friend bool operator==(const BatchNorm2dAttributes&, const BatchNorm2dAttributes&) = default;
};

/// What y is at most; NaN, than which nothing is greater, where nothing limits it.
constexpr float ceiling_of(const BatchNorm2dAttributes& attributes) {
  return attributes.capped ? 6.0F : std::numeric_limits<float>::quiet_NaN();
}

/// Where a forward op has its addend among its inputs; behind it stand the given sums.
constexpr int addend_position(const BatchNorm2dAttributes& attributes) { return attributes.affine ? 5 : 3; }
constexpr int sums_position(const BatchNorm2dAttributes& attributes) {
  return addend_position(attributes) + (attributes.adds ? 1 : 0);
}

/// Training. inputs: x (…, C), running_mean (C), running_var (C) [both modified][, weight (C), bias (C)][,
/// addend][, Σx (C), Σx² (C)]; outputs: y, mean (C), reciprocal standard deviation (C). y may be stored over the
/// addend, and over x where no gradient reads x. Given sums stand for those over x, which a device may take instead
/// where they are as good: Note [Given sums] in engine/program/statistics_fusion.h.
Op batchnorm2d_op(const TensorType& x, const BatchNorm2dAttributes& attributes);
/// y of `batchnorm2d` once more, bit for bit, from the mean and the deviation it found: running statistics stay as they
/// are. inputs: x, mean, rstd[, weight, bias][, addend]; outputs: y, which may be stored over x or the addend. Its
/// gradient by x is that through mean and deviation, too, which ranks found together.
Op batchnorm2d_normalize_op(const Op& batchnorm2d);
/// Evaluation. The same inputs, none modified; outputs: y, which may be stored over x or the addend.
Op batchnorm2d_inference_op(const TensorType& x, const BatchNorm2dAttributes& attributes);
/// The gradient of that by x, without ReLU and addend: dx = dy · weight / √(running_var + eps).
/// inputs: dy, running_var (C)[, weight (C)]; outputs: dx, which may be stored over dy.
Op batchnorm2d_inference_backward_op(const Op& batchnorm2d_inference);
/// inputs: dy, x, mean, rstd[, weight[, bias where relu]]; outputs: dx[, dweight, dbias]. dx may be stored over dy.
/// Where ReLU was applied, y is not read: whether it was above 0 and not capped (before y was rounded to 16 bits, if it
/// was) is computed anew from x, as the forward pass computed it. With an addend and ReLU it also makes the addend's
/// gradient: inputs: dy, x, mean, rstd[, weight], y; outputs: dx[, dweight, dbias], daddend, which is dy where y was
/// above 0. dx may be stored over y, daddend over dy. Without ReLU the addend's gradient is dy itself, and the op is
/// that without an addend.
Op batchnorm2d_backward_op(const Op& batchnorm2d);
/// A forward op without ReLU, with an addend, and with ReLU behind the sum where `relu`.
Op batchnorm2d_adding_op(const Op& forward, bool relu);
/// `batchnorm2d` with given sums.
Op batchnorm2d_given_sums_op(const Op& batchnorm2d);

}  // namespace trainer
