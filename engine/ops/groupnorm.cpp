#include "engine/ops/groupnorm.h"

#include <fmt/format.h>

#include "engine/ops/elementwise.h"

namespace trainer {

Op groupnorm_op(const TensorType& x, const GroupNormAttributes& attributes) {
  if (x.shape.rank() < 2) throw ShapeError("groupnorm takes at least (batch, channels)");
  const std::int64_t channels = x.shape[-1];
  if (attributes.groups < 1 || channels % attributes.groups != 0)
    throw ShapeError(fmt::format("{} groups do not divide {} channels", attributes.groups, channels));
  const TensorType of_channels{DType::f32, {channels}};
  const TensorType of_groups{DType::f32, {x.shape[0], attributes.groups}};
  Op op{OpKind::groupnorm, attributes, {x}, {x, of_groups, of_groups}};
  if (attributes.affine) op.inputs.insert(op.inputs.end(), {of_channels, of_channels});
  return op;
}

Op groupnorm_normalize_op(const Op& groupnorm) {
  Op op = groupnorm;
  op.kind = OpKind::groupnorm_normalize;
  op.inputs.insert(op.inputs.begin() + 1, {groupnorm.outputs[1], groupnorm.outputs[2]});
  op.outputs.resize(1);
  return op;
}

Op groupnorm_backward_op(const Op& groupnorm) {
  const auto& attributes = attributes_of<GroupNormAttributes>(groupnorm);
  const TensorType& x = groupnorm.inputs[0];
  Op op{OpKind::groupnorm_backward, attributes, {x, x, groupnorm.outputs[1], groupnorm.outputs[2]}, {x}};
  if (attributes.affine) {
    op.inputs.push_back(groupnorm.inputs[1]);
    if (attributes.relu) op.inputs.push_back(groupnorm.inputs[2]);
    op.outputs.insert(op.outputs.end(), {groupnorm.inputs[1], groupnorm.inputs[2]});
  }
  return op;
}

namespace {

void differentiate_groupnorm(GradientScope& scope) {
  const auto attributes = attributes_of<GroupNormAttributes>(scope.op());
  std::vector<Operand> inputs = {scope.output_gradient(), scope.input(0), scope.output(1), scope.output(2)};
  if (attributes.affine) inputs.push_back(scope.input(1));
  if (attributes.affine && attributes.relu) inputs.push_back(scope.input(2));
  const auto outputs = scope.emit(groupnorm_backward_op(scope.op()), std::move(inputs));
  if (scope.needs_gradient(0)) scope.set_gradient(0, outputs[0]);
  if (attributes.affine) {
    scope.set_gradient(1, outputs[1]);
    scope.set_gradient(2, outputs[2]);
  }
}

Rerun rerun_groupnorm(const Op& op) {
  Rerun rerun{.op = groupnorm_normalize_op(op), .reads = {0, -2, -3}, .makes = {0}};
  if (attributes_of<GroupNormAttributes>(op).affine) rerun.reads.insert(rerun.reads.end(), {1, 2});
  return rerun;
}

}  // namespace

// Forward: mean, variance, scale and shift; backward: two reductions and the combination.
const OpDefinition groupnorm_definition = {.flops = flops_per_input_element<7>,
                                           .differentiate = differentiate_groupnorm,
                                           .in_place = in_place_over_first,
                                           .precision = Precision::follows_first,
                                           .is_cheap = true,
                                           .rerun = rerun_groupnorm,
                                           .takes_scratch = true};
const OpDefinition groupnorm_normalize_definition = {
    .flops = flops_per_input_element<2>, .in_place = in_place_over_first, .is_cheap = true, .takes_scratch = true};
const OpDefinition groupnorm_backward_definition = {
    .flops = flops_per_input_element<11>, .in_place = in_place_over_first, .takes_scratch = true};

}  // namespace trainer
