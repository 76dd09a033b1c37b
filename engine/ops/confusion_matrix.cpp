#include "engine/ops/confusion_matrix.h"

#include "engine/ops/elementwise.h"

namespace trainer {

TensorType confusion_counts_type(const TensorType& logits, const TensorType& targets) {
  const bool is_choice = targets.dtype == DType::i32 && logits.shape[-1] > 1;
  const std::int64_t classes = is_choice ? logits.shape[-1] : 2;
  return {DType::i64, {classes, classes}};
}

Op confusion_matrix_op(const TensorType& logits, const TensorType& targets,
                       const ConfusionMatrixAttributes& attributes) {
  return {OpKind::confusion_matrix, attributes, {logits, targets, confusion_counts_type(logits, targets)}, {}};
}

ConfusionShape confusion_shape_of(const Op& confusion_matrix) {
  const TensorType& logits = confusion_matrix.inputs[0];
  const std::int64_t channels = logits.shape[-1];
  return {logits.num_elements() / channels, channels, confusion_matrix.inputs[1].dtype == DType::i32,
          confusion_matrix.inputs[2].shape[0]};
}

namespace {

bool are_counts(const Op& /*op*/, int position) { return position == 2; }

}  // namespace

const OpDefinition confusion_matrix_definition = {.flops = flops_per_input_element<1>, .modifies = are_counts};

}  // namespace trainer
