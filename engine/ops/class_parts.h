#pragma once

#include <cstdint>

#include "engine/ops/cross_entropy.h"
#include "engine/rank_layout.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Losses of cut classes]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Where ranks share the last layer (Note [Cut layers] in engine/program/tensor/cut_layers.h) each has the logits of
// some classes alone, and never those of others. What the softmax cross-entropy of a row needs of them are a few
// numbers, which each rank finds of its own logits and all add up:
//
//   class_statistics   of each rank the largest logit and the sum of exponentials below it, the logit of the target
//   where
//                      it has it, and the sum of its logits, for smoothing: each in a place of its own, 0 elsewhere
//   class_order        with the target's logit, how many of its classes come before it, for accuracies
//
// From these sums each rank finds the same loss, and the gradient of its own logits. So for a row 16 bytes of each rank
// and 4 more are added up, instead of its logits.

struct ClassPartAttributes {
  RankGroup ranks{};
  std::int64_t place = 0;        ///< of this one among them
  std::int64_t first_class = 0;  ///< of `all_classes`, those from there on as many as there are logits
  std::int64_t all_classes = 0;
  double label_smoothing = 0;
  std::int32_t ignore_index = no_ignored_target;
  friend bool operator==(const ClassPartAttributes&, const ClassPartAttributes&) = default;
};

/// What class_statistics finds of a row, for each rank.
enum ClassStatistic : int { largest_logit, sum_below_largest, logit_of_target, sum_of_logits, num_class_statistics };

/// inputs: logits f32 (N, …, own classes), targets i32 (N, …) of all classes; outputs: f32 (targets, ranks,
/// num_class_statistics), 0 but for this rank's.
Op class_statistics_op(const TensorType& logits, const TensorType& targets, const ClassPartAttributes& attributes);
/// inputs: logits, targets, statistics of all ranks; outputs: f32 (targets), own classes before the target's when they
/// are sorted by falling logit, equal ones by number; NaN comes before all.
Op class_order_op(const Op& class_statistics);
/// Of a loss of one term. inputs: logits and targets, which are there for the gradient alone, statistics and order of
/// all ranks, loss statistics [added to, as cross_entropy's]; no outputs.
Op cross_entropy_of_parts_op(const Op& class_statistics);
/// inputs: logits, targets, statistics of all ranks; outputs: dlogits of own classes, which may be stored over the
/// logits; scaled by StepScalars::gradient_scale.
Op cross_entropy_of_parts_backward_op(const Op& loss);

}  // namespace trainer
