#include "engine/ops/batchnorm2d.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op batchnorm2d_op(const TensorType& x, const BatchNorm2dAttributes& attributes) {
  require_image(x, "batchnorm2d");
  const TensorType channels{DType::f32, {x.shape[3]}};
  Op op{OpKind::batchnorm2d, attributes, {x, channels, channels}, {x, channels, channels}};
  if (attributes.affine) op.inputs.insert(op.inputs.end(), {channels, channels});
  return op;
}

Op batchnorm2d_inference_op(const TensorType& x, const BatchNorm2dAttributes& attributes) {
  Op op = batchnorm2d_op(x, attributes);
  op.kind = OpKind::batchnorm2d_inference;
  op.outputs.resize(1);
  return op;
}

Op batchnorm2d_normalize_op(const Op& batchnorm2d) {
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d);
  const TensorType& x = batchnorm2d.inputs[0];
  const TensorType& channels = batchnorm2d.inputs[1];
  Op op{OpKind::batchnorm2d_normalize, attributes, {x, channels, channels}, {x}};
  if (attributes.affine) op.inputs.insert(op.inputs.end(), {channels, channels});
  return op;
}

Op batchnorm2d_backward_op(const Op& batchnorm2d) {
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d);
  const TensorType& x = batchnorm2d.inputs[0];
  const TensorType& channels = batchnorm2d.inputs[1];
  Op op{OpKind::batchnorm2d_backward, attributes, {x, x, channels, channels}, {x}};
  if (attributes.affine) {
    op.inputs.push_back(channels);
    op.outputs.insert(op.outputs.end(), {channels, channels});
  }
  if (attributes.affine && attributes.relu) op.inputs.push_back(channels);
  return op;
}

namespace {

void differentiate_batchnorm2d(GradientScope& scope) {
  const auto attributes = attributes_of<BatchNorm2dAttributes>(scope.op());
  std::vector<Operand> inputs = {scope.output_gradient(), scope.input(0), scope.output(1), scope.output(2)};
  if (attributes.affine) inputs.push_back(scope.input(3));
  if (attributes.affine && attributes.relu) inputs.push_back(scope.input(4));
  const auto outputs = scope.emit(batchnorm2d_backward_op(scope.op()), std::move(inputs));
  if (scope.needs_gradient(0)) scope.set_gradient(0, outputs[0]);
  if (attributes.affine) {
    scope.set_gradient(3, outputs[1]);
    scope.set_gradient(4, outputs[2]);
  }
}

Rerun rerun_batchnorm2d(const Op& op) {
  Rerun rerun{.op = batchnorm2d_normalize_op(op), .reads = {0, -2, -3}, .makes = {0}};
  if (attributes_of<BatchNorm2dAttributes>(op).affine) rerun.reads.insert(rerun.reads.end(), {3, 4});
  return rerun;
}

}  // namespace

// Forward: mean, variance, scale and shift; backward: two reductions and the combination.
const OpDefinition batchnorm2d_definition = {.flops = flops_per_input_element<7>,
                                             .differentiate = differentiate_batchnorm2d,
                                             .in_place = in_place_over_first,
                                             .precision = Precision::follows_first,
                                             .is_cheap = true,
                                             .rerun = rerun_batchnorm2d};
const OpDefinition batchnorm2d_normalize_definition = {
    .flops = flops_per_input_element<2>, .in_place = in_place_over_first, .is_cheap = true};
const OpDefinition batchnorm2d_inference_definition = {
    .flops = flops_per_input_element<2>, .in_place = in_place_over_first, .precision = Precision::follows_first};
const OpDefinition batchnorm2d_backward_definition = {.flops = flops_per_input_element<11>,
                                                      .in_place = in_place_over_first};

}  // namespace trainer
