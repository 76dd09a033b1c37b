#include "engine/ops/linear_cross_entropy.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/loss_scale.h"
#include "engine/ops/loss_statistics.h"
#include "engine/ops/mixed_sample.h"

namespace trainer {

Op linear_cross_entropy_op(const TensorType& x, const TensorType& weight, const TensorType& targets,
                           const LinearCrossEntropyAttributes& attributes) {
  Op op{OpKind::linear_cross_entropy, attributes, {x, weight}, {}};
  if (attributes.bias) op.inputs.push_back({weight.dtype, {weight.shape[0]}});
  op.inputs.push_back(targets);
  op.inputs.push_back(loss_statistics_type());
  if (attributes.loss.mixed) op.inputs.push_back(mixed_samples_type(targets.shape[0]));
  if (attributes.counts) op.inputs.push_back(confusion_counts_type({DType::f32, {1, weight.shape[0]}}, targets));
  return op;
}

Op linear_cross_entropy_with_gradient_op(const TensorType& x, const TensorType& weight, const TensorType& targets,
                                         const LinearCrossEntropyAttributes& attributes, DType gradient_type) {
  Op op = linear_cross_entropy_op(x, weight, targets, attributes);
  op.kind = OpKind::linear_cross_entropy_with_gradient;
  op.outputs = {{gradient_type, weight.shape}};
  if (attributes.bias) op.outputs.push_back({gradient_type, {weight.shape[0]}});
  if (attributes.input_gradient) op.outputs.push_back(x);
  if (attributes.scaled) op.inputs.push_back({DType::f64, {num_loss_scale_values}});
  return op;
}

std::int64_t num_rows_of_linear_cross_entropy(const Op& op) {
  const TensorType& x = op.inputs[0];
  return x.num_elements() / x.shape[-1];
}

const RankGroup* ranks_of_linear_cross_entropy(const Op& op) {
  const auto* attributes = std::get_if<LinearCrossEntropyAttributes>(&op.attributes);
  return attributes != nullptr && attributes->part && attributes->part->ranks.count > 1 ? &attributes->part->ranks
                                                                                        : nullptr;
}

namespace {

/// The product and the loss over its result.
std::int64_t linear_cross_entropy_flops(const Op& op) {
  const std::int64_t rows = num_rows_of_linear_cross_entropy(op), in = op.inputs[1].shape[1];
  const std::int64_t classes = op.inputs[1].shape[0];
  return flops_product(2 * rows, in, classes) + flops_product(4, rows, classes);
}
/// Two or three products, and what the loss and its gradient share.
std::int64_t gradient_flops(const Op& op) {
  const std::int64_t rows = num_rows_of_linear_cross_entropy(op), in = op.inputs[1].shape[1];
  const std::int64_t classes = op.inputs[1].shape[0];
  const std::int64_t products = attributes_of<LinearCrossEntropyAttributes>(op).input_gradient ? 6 : 4;
  return flops_product(products * rows, in, classes) + flops_product(6, rows, classes);
}

bool is_loss_statistics_of_chunks(const Op& op, int position) {
  return position == (attributes_of<LinearCrossEntropyAttributes>(op).bias ? 4 : 3);
}

}  // namespace

const OpDefinition linear_cross_entropy_definition = {.flops = linear_cross_entropy_flops, .takes_scratch = true};
const OpDefinition linear_cross_entropy_with_gradient_definition = {
    .flops = gradient_flops, .modifies = is_loss_statistics_of_chunks, .takes_scratch = true};

}  // namespace trainer
