#pragma once

#include <cstdint>

#include "engine/ops/cross_entropy.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

struct ConfusionMatrixAttributes {
  std::int32_t ignore_index = no_ignored_target;  ///< a target that is not counted
  friend bool operator==(const ConfusionMatrixAttributes&, const ConfusionMatrixAttributes&) = default;
};

/// Counts how often each class is taken for each other. Of targets i32 (N, …) and logits (N, …, K) the guess is the
/// class of the largest logit, of equal ones the first; of one logit, or of numbers f32 (N, …, C) as targets, it is
/// whether the logit is above 0, and the truth whether the number is above 0.5.
/// inputs: logits f32, targets, counts i64 (K, K), by truth and guess; (2, 2) where a logit is a guess by itself
/// [added to]; no outputs. The counts are whole numbers, so that their order does not matter.
Op confusion_matrix_op(const TensorType& logits, const TensorType& targets,
                       const ConfusionMatrixAttributes& attributes);

/// Of its counts.
TensorType confusion_counts_type(const TensorType& logits, const TensorType& targets);

/// How it reads its logits.
struct ConfusionShape {
  std::int64_t rows = 0, channels = 0;  ///< of logits; a row is one guess where there are classes
  bool has_classes = true;              ///< targets are i32, one a row, else f32, one a logit
  std::int64_t num_classes = 0;
};
ConfusionShape confusion_shape_of(const Op& confusion_matrix);

}  // namespace trainer
