#include "cuda/ops/conv2d_call.h"

#include <array>

#include "cuda/kernels/batchnorm2d.h"
#include "cuda/kernels/bias_gradient.h"
#include "cuda/ops/kernels.h"
#include "engine/memory/rounding.h"

namespace trainer::cuda {

namespace {

std::array<std::int64_t, 4> image_of(const TensorType& type) {
  return {type.shape[0], type.shape[1], type.shape[2], type.shape[3]};
}

struct Conv2dImages {
  const TensorType& x;
  const TensorType& y;
};

Conv2dImages images_of(const Op& op) {
  switch (op.kind) {
    case OpKind::conv2d:
      return {op.inputs[0], op.outputs[0]};
    case OpKind::conv2d_backward_input:
      return {op.outputs[0], op.inputs[0]};
    case OpKind::conv2d_backward_weight:
      return {op.inputs[1], op.inputs[0]};
    // Note [Transposed convolutions] in engine/ops/conv_transpose2d.h
    case OpKind::conv_transpose2d:
      return {op.outputs[0], op.inputs[0]};
    case OpKind::conv_transpose2d_backward_weight:
      return {op.inputs[0], op.inputs[1]};
    default:
      throw InternalError("internal error: an op that is no convolution is asked for its call");
  }
}

}  // namespace

ConvolutionDirection convolution_direction(const Op& op) {
  if (op.kind == OpKind::conv2d) return ConvolutionDirection::forward;
  if (op.kind == OpKind::conv2d_backward_input || op.kind == OpKind::conv_transpose2d)
    return ConvolutionDirection::input_gradient;
  return ConvolutionDirection::weight_gradient;
}

std::optional<DepthwiseShape> depthwise_shape_of(const Op& op) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  const Conv2dImages images = images_of(op);
  const Shape &x = images.x.shape, &y = images.y.shape;
  if (attributes.groups != x[3] || attributes.groups == 1 || attributes.statistics) return std::nullopt;
  const DepthwiseShape shape{.images = x[0],
                             .channels = x[3],
                             .multiplier = y[3] / x[3],
                             .x = {x[1], x[2]},
                             .y = {y[1], y[2]},
                             .kernel = attributes.kernel,
                             .stride = attributes.stride,
                             .padding = attributes.padding,
                             .dilation = attributes.dilation};
  return depthwise_conv2d_serves(shape) ? std::optional(shape) : std::nullopt;
}

ConvolutionCall convolution_call(const Op& op, bool tf32) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  const Conv2dImages images = images_of(op);
  const bool is_forward = op.kind == OpKind::conv2d;
  return {.direction = convolution_direction(op),
          .type = images.x.dtype,
          .x = image_of(images.x),
          .y = image_of(images.y),
          .kernel = attributes.kernel,
          .stride = attributes.stride,
          .padding = attributes.padding,
          .dilation = attributes.dilation,
          .groups = attributes.groups,
          .bias = is_forward && attributes.bias,
          .relu = is_forward && attributes.bias && attributes.relu,
          .statistics = is_forward && attributes.statistics,
          .tf32 = tf32 && images.x.dtype == DType::f32,
          .workspace_limit = attributes.workspace_limit};
}

Conv2dWorkspace conv2d_workspace(const Op& op, std::int64_t convolution_bytes) {
  Conv2dWorkspace workspace{.num_bytes = convolution_bytes};
  const bool is_weight_gradient =
      op.kind == OpKind::conv2d_backward_weight || op.kind == OpKind::conv_transpose2d_backward_weight;
  if (!is_weight_gradient || op.outputs.size() == 1) return workspace;
  const TensorType& dy = op.inputs[0];
  const std::int64_t columns = dy.shape[3];
  const std::int64_t partial_bytes = bias_gradient_workspace_bytes(dy.num_elements() / columns, columns);
  if (partial_bytes == 0) return workspace;
  workspace.bias_gradient = round_up(convolution_bytes, least_block_bytes);
  workspace.num_bytes = workspace.bias_gradient + partial_bytes;
  return workspace;
}

bool conv2d_statistics_pay(const Op& op, const WorkspaceModel& model) {
  const TensorType &x = op.inputs[0], &y = op.outputs[0];
  if (y.dtype != DType::f16 || x.shape[3] % 8 != 0 || depthwise_shape_of(op)) return false;
  if (batchnorm2d_is_one_launch({y.num_elements() / y.shape[3], y.shape[3]})) return false;
  return model.convolutions->serves(convolution_call(op, model.tf32));
}

namespace {

constexpr std::array conv2d_kinds = {OpKind::conv2d, OpKind::conv2d_backward_input, OpKind::conv2d_backward_weight,
                                     OpKind::conv_transpose2d, OpKind::conv_transpose2d_backward_weight};

std::int64_t conv2d_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  if (const auto depthwise = depthwise_shape_of(op)) {
    const bool sums = convolution_direction(op) == ConvolutionDirection::weight_gradient;
    return conv2d_workspace(op, sums ? depthwise_workspace_bytes(*depthwise) : 0).num_bytes;
  }
  return conv2d_workspace(op, model.convolutions->workspace_bytes(convolution_call(op, model.tf32))).num_bytes;
}

}  // namespace

const ScratchRule conv2d_scratch = {conv2d_kinds, conv2d_workspace_bytes};

}  // namespace trainer::cuda
