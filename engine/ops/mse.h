#pragma once

#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// Mean squared error over all numbers, as PyTorch's MSELoss.
/// inputs: outputs of the model (N, …), targets f32 (N, …), loss statistics [added to]; no outputs.
Op mse_op(const TensorType& prediction, const TensorType& targets, const LossTerm& term = {});
/// inputs: prediction, targets; outputs: dprediction, which may be stored over the prediction; scaled by
/// StepScalars::gradient_scale_of its term.
Op mse_backward_op(const Op& mse);

}  // namespace trainer
