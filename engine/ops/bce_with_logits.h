#pragma once

#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// Binary cross-entropy of sigmoid(logits), over all numbers, as PyTorch's BCEWithLogitsLoss.
/// inputs: outputs of the model (N, …), targets f32 (N, …), loss statistics [added to]; no outputs.
Op bce_with_logits_op(const TensorType& prediction, const TensorType& targets, const LossTerm& term = {});
/// inputs: prediction, targets; outputs: dprediction, which may be stored over the prediction; scaled by
/// StepScalars::gradient_scale_of its term.
Op bce_with_logits_backward_op(const Op& bce_with_logits);

}  // namespace trainer
