#include "engine/ops/batchnorm2d.h"

#include <array>
#include <span>

#include "engine/ops/all_reduce.h"
#include "engine/ops/batchnorm2d_over_ranks.h"
#include "engine/ops/elementwise.h"

namespace trainer {

Op batchnorm2d_op(const TensorType& x, const BatchNorm2dAttributes& attributes) {
  if (x.shape.rank() < 2) throw ShapeError("batch normalization takes at least (batch, channels)");
  const TensorType channels{DType::f32, {x.shape[-1]}};
  Op op{OpKind::batchnorm2d, attributes, {x, channels, channels}, {x, channels, channels}};
  if (attributes.affine) op.inputs.insert(op.inputs.end(), {channels, channels});
  if (attributes.adds) op.inputs.push_back(x);
  if (attributes.given_sums) op.inputs.insert(op.inputs.end(), {channels, channels});
  return op;
}

Op batchnorm2d_inference_op(const TensorType& x, const BatchNorm2dAttributes& attributes) {
  Op op = batchnorm2d_op(x, attributes);
  op.kind = OpKind::batchnorm2d_inference;
  op.outputs.resize(1);
  return op;
}

Op batchnorm2d_inference_backward_op(const Op& batchnorm2d_inference) {
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d_inference);
  require_internal(!attributes.relu && !attributes.adds, "such a norm is not fused where it has a gradient");
  const TensorType& x = batchnorm2d_inference.inputs[0];
  const TensorType& channels = batchnorm2d_inference.inputs[1];
  Op op{OpKind::batchnorm2d_inference_backward, attributes, {x, channels}, {x}};
  if (attributes.affine) op.inputs.push_back(channels);
  return op;
}

Op batchnorm2d_normalize_op(const Op& batchnorm2d) {
  auto attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d);
  attributes.given_sums = false;
  const TensorType& x = batchnorm2d.inputs[0];
  const TensorType& channels = batchnorm2d.inputs[1];
  Op op{OpKind::batchnorm2d_normalize, attributes, {x, channels, channels}, {x}};
  if (attributes.affine) op.inputs.insert(op.inputs.end(), {channels, channels});
  if (attributes.adds) op.inputs.push_back(x);
  return op;
}

Op batchnorm2d_adding_op(const Op& forward, bool relu) {
  Op op = forward;
  auto& attributes = std::get<BatchNorm2dAttributes>(op.attributes);
  require_internal(!attributes.relu && !attributes.adds && !attributes.given_sums,
                   "nothing stands between a batch norm and its sum, and sums of x come last");
  attributes.relu = relu;
  attributes.adds = true;
  op.inputs.push_back(op.inputs[0]);
  return op;
}

Op batchnorm2d_given_sums_op(const Op& batchnorm2d) {
  auto attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d);
  attributes.given_sums = true;
  return batchnorm2d_op(batchnorm2d.inputs[0], attributes);
}

Op batchnorm2d_backward_op(const Op& batchnorm2d) {
  auto attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d);
  attributes.given_sums = false;
  attributes.adds = attributes.adds && attributes.relu;
  const TensorType& x = batchnorm2d.inputs[0];
  const TensorType& channels = batchnorm2d.inputs[1];
  Op op{OpKind::batchnorm2d_backward, attributes, {x, x, channels, channels}, {x}};
  if (attributes.affine) {
    op.inputs.push_back(channels);
    op.outputs.insert(op.outputs.end(), {channels, channels});
  }
  if (attributes.adds) {
    op.inputs.push_back(x);
    op.outputs.push_back(x);
  } else if (attributes.affine && attributes.relu) {
    op.inputs.push_back(channels);
  }
  return op;
}

namespace {

void differentiate_batchnorm2d(GradientScope& scope) {
  const auto attributes = attributes_of<BatchNorm2dAttributes>(scope.op());
  require_internal(!attributes.adds, "sums move into batch norms behind differentiate()");
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

void differentiate_batchnorm2d_normalize(GradientScope& scope) {
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(scope.op());
  const bool has_line = attributes.affine && attributes.relu;
  std::vector<Operand> inputs = {scope.output_gradient(), scope.input(0), scope.input(1), scope.input(2)};
  std::vector<Operand> of_sums = inputs;
  if (has_line) of_sums.insert(of_sums.end(), {scope.input(3), scope.input(4)});
  const auto found = scope.emit(batchnorm2d_gradient_sums_op(scope.op()), std::move(of_sums));
  if (attributes.affine) {
    scope.set_gradient(3, found[1]);
    scope.set_gradient(4, found[2]);
  }
  if (!scope.needs_gradient(0)) return;
  const TensorType sums = batchnorm2d_sums_type(scope.op().inputs[0].shape[-1]);
  scope.emit(all_reduce_op(std::span(&sums, 1), attributes.ranks), {found[0]});
  inputs.push_back(found[0]);
  if (attributes.affine) inputs.push_back(scope.input(3));
  if (has_line) inputs.push_back(scope.input(4));
  scope.set_gradient(0, scope.emit(batchnorm2d_normalize_backward_op(scope.op()), std::move(inputs))[0]);
}

/// Of a frozen network: its parameters have no gradients.
void differentiate_batchnorm2d_inference(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  std::vector<Operand> inputs = {scope.output_gradient(), scope.input(2)};
  if (attributes_of<BatchNorm2dAttributes>(scope.op()).affine) inputs.push_back(scope.input(3));
  scope.set_gradient(0, scope.emit(batchnorm2d_inference_backward_op(scope.op()), std::move(inputs))[0]);
}

Rerun rerun_batchnorm2d(const Op& op) {
  Rerun rerun{.op = batchnorm2d_normalize_op(op), .reads = {0, -2, -3}, .makes = {0}};
  const int num_inputs = static_cast<int>(rerun.op.inputs.size());
  for (int i = 3; i < num_inputs; ++i) rerun.reads.push_back(i);
  return rerun;
}

template <std::int64_t per_element>
std::int64_t batchnorm2d_flops(const Op& op) {
  const std::int64_t sums = attributes_of<BatchNorm2dAttributes>(op).adds ? 1 : 0;
  return flops_product(per_element + sums, op.inputs[0].num_elements(), 1);
}

std::span<const InPlace> forward_in_place(const Op& op) {
  static constexpr std::array<InPlace, 2> with_addend = {{{.output = 0, .input = 0}, {.output = 0, .input = 3}}};
  static constexpr std::array<InPlace, 2> affine_with_addend = {{{.output = 0, .input = 0}, {.output = 0, .input = 5}}};
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(op);
  if (!attributes.adds) return in_place_over_first;
  return attributes.affine ? affine_with_addend : with_addend;
}

std::span<const InPlace> backward_in_place(const Op& op) {
  static constexpr std::array<InPlace, 2> with_addend = {{{.output = 0, .input = 4}, {.output = 1, .input = 0}}};
  static constexpr std::array<InPlace, 2> affine_with_addend = {{{.output = 0, .input = 5}, {.output = 3, .input = 0}}};
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(op);
  if (!attributes.adds) return in_place_over_first;
  return attributes.affine ? affine_with_addend : with_addend;
}

bool is_running_statistic(const Op& /*op*/, int position) { return position == 1 || position == 2; }

}  // namespace

// Forward: mean, variance, scale and shift; backward: two reductions and the combination.
const OpDefinition batchnorm2d_definition = {.flops = batchnorm2d_flops<7>,
                                             .differentiate = differentiate_batchnorm2d,
                                             .in_place_of = forward_in_place,
                                             .precision = Precision::follows_first,
                                             .is_cheap = true,
                                             .rerun = rerun_batchnorm2d,
                                             .modifies = is_running_statistic,
                                             .can_be_placed = true,
                                             .takes_scratch = true};
const OpDefinition batchnorm2d_normalize_definition = {.flops = batchnorm2d_flops<2>,
                                                       .differentiate = differentiate_batchnorm2d_normalize,
                                                       .in_place_of = forward_in_place,
                                                       .precision = Precision::follows_first,
                                                       .is_cheap = true,
                                                       .can_be_placed = true,
                                                       .takes_scratch = true};
const OpDefinition batchnorm2d_inference_definition = {.flops = batchnorm2d_flops<2>,
                                                       .differentiate = differentiate_batchnorm2d_inference,
                                                       .in_place_of = forward_in_place,
                                                       .precision = Precision::follows_first,
                                                       .can_be_placed = true,
                                                       .takes_scratch = true};
const OpDefinition batchnorm2d_inference_backward_definition = {
    .flops = flops_per_input_element<1>, .in_place = in_place_over_first, .takes_scratch = true};
const OpDefinition batchnorm2d_backward_definition = {
    .flops = batchnorm2d_flops<11>, .in_place_of = backward_in_place, .takes_scratch = true};

}  // namespace trainer
