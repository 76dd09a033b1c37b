#include "engine/ops/concat.h"

#include <fmt/format.h>

#include "engine/ops/elementwise.h"

namespace trainer {

Op concat_op(std::span<const TensorType> inputs) {
  require_internal(inputs.size() >= 2, "several tensors are concatenated");
  TensorType y = inputs[0];
  std::int64_t& channels = y.shape[-1];
  channels = 0;
  for (const TensorType& x : inputs) {
    TensorType others = x;
    if (others.shape.rank() == y.shape.rank()) others.shape[-1] = channels;
    if (others != y)
      throw ShapeError(fmt::format("concat takes inputs that are alike but for their channels, not {} and {}",
                                   inputs[0].shape.to_string(), x.shape.to_string()));
    channels += x.shape[-1];
  }
  return {OpKind::concat, std::monostate{}, {inputs.begin(), inputs.end()}, {y}};
}

Op channel_slice_op(const TensorType& x, std::int64_t channels, const ChannelSliceAttributes& attributes) {
  require_internal(attributes.first >= 0 && channels >= 1 && attributes.first + channels <= x.shape[-1],
                   "a slice lies within the channels");
  TensorType y = x;
  y.shape[-1] = channels;
  return {OpKind::channel_slice, attributes, {x}, {y}};
}

Op channel_slice_backward_op(const Op& channel_slice) {
  return {OpKind::channel_slice_backward, channel_slice.attributes, channel_slice.outputs, channel_slice.inputs};
}

namespace {

void differentiate_channel_slice(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(channel_slice_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

void differentiate_concat(GradientScope& scope) {
  const Op& op = scope.op();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const std::int64_t channels = op.inputs[i].shape[-1];
    const auto position = static_cast<int>(i);
    if (scope.needs_gradient(position)) {
      Op slice = channel_slice_op(op.outputs[0], channels, {.first = first});
      scope.set_gradient(position, scope.emit(std::move(slice), {scope.output_gradient()})[0]);
    }
    first += channels;
  }
}

}  // namespace

const OpDefinition concat_definition = {.flops = flops_per_input_element<0>,
                                        .differentiate = differentiate_concat,
                                        .precision = Precision::follows,
                                        .is_cheap = true};
const OpDefinition channel_slice_definition = {.flops = flops_per_input_element<0>,
                                               .differentiate = differentiate_channel_slice,
                                               .precision = Precision::follows,
                                               .is_cheap = true};
const OpDefinition channel_slice_backward_definition = {.flops = flops_per_input_element<0>};

}  // namespace trainer
