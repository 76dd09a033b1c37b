#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// PyTorch's default for it: no class, and in no data.
inline constexpr std::int32_t no_ignored_target = -100;

/// Softmax cross-entropy as PyTorch's CrossEntropyLoss with reduction 'mean'; of mixed samples (Note [Mixed batches] in
/// mixed_sample.h) as that of soft targets.
struct CrossEntropyAttributes {
  double label_smoothing = 0;
  std::vector<float> class_weights;  ///< empty: 1 each
  /// Such a target costs and weighs nothing, is not counted, and its logits have no gradient; it may be a class.
  std::int32_t ignore_index = no_ignored_target;
  LossTerm term = {};
  /// Each sample has a target of its own and one of its partner: one more operand, of mixed_samples_type. Targets have
  /// rank 1 then, and none of them is ignored.
  bool mixed = false;
  friend bool operator==(const CrossEntropyAttributes&, const CrossEntropyAttributes&) = default;
};

/// Each target has its logits in the last dimension, where PyTorch has the classes second.
/// inputs: logits (N, …, classes), targets i32 (N, …), loss statistics [added to][, mixed samples]; no outputs.
Op cross_entropy_op(const TensorType& logits, const TensorType& targets, const CrossEntropyAttributes& attributes);
/// inputs: logits, targets[, mixed samples]; outputs: dlogits, which may be stored over the logits; scaled by
/// StepScalars::gradient_scale_of its term.
Op cross_entropy_backward_op(const Op& cross_entropy);
/// Both at once, which reads the logits once.
/// inputs: logits, targets, loss statistics [added to][, mixed samples]; outputs: dlogits, as cross_entropy_backward's.
Op cross_entropy_with_gradient_op(const Op& cross_entropy);

}  // namespace trainer
