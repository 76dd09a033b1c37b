#pragma once

#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// Where an error d costs |d| − beta / 2, and below that d² / (2 · beta).
struct SmoothL1Attributes {
  double beta = 1;  ///< 0: |d| everywhere, PyTorch's L1Loss
  LossTerm term = {};
  friend bool operator==(const SmoothL1Attributes&, const SmoothL1Attributes&) = default;
};

/// Mean over all numbers, as PyTorch's SmoothL1Loss, and for a beta of 0 its L1Loss.
/// inputs: outputs of the model (N, …), targets f32 (N, …), loss statistics [added to]; no outputs.
Op smooth_l1_op(const TensorType& prediction, const TensorType& targets, const SmoothL1Attributes& attributes);
/// inputs: prediction, targets; outputs: dprediction, which may be stored over the prediction; scaled by
/// StepScalars::gradient_scale_of its term. Where an error is 0 so is its gradient.
Op smooth_l1_backward_op(const Op& smooth_l1);

}  // namespace trainer
