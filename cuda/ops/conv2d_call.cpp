#include "cuda/ops/conv2d_call.h"

#include "cuda/kernels/bias_gradient.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

std::array<std::int64_t, 4> image_of(const TensorType& type) {
  return {type.shape[0], type.shape[1], type.shape[2], type.shape[3]};
}

struct Conv2dOperands {
  const TensorType& x;
  const TensorType& weights;
  const TensorType& y;
};

Conv2dOperands operands_of(const Op& op) {
  switch (op.kind) {
    case OpKind::conv2d:
      return {op.inputs[0], op.inputs[1], op.outputs[0]};
    case OpKind::conv2d_backward_input:
      return {op.outputs[0], op.inputs[1], op.inputs[0]};
    case OpKind::conv2d_backward_weight:
      return {op.inputs[1], op.outputs[0], op.inputs[0]};
    default:
      throw InternalError("internal error: an op that is no convolution is asked for its call");
  }
}

ConvolutionDirection direction_of(const Op& op) {
  if (op.kind == OpKind::conv2d) return ConvolutionDirection::forward;
  if (op.kind == OpKind::conv2d_backward_input) return ConvolutionDirection::input_gradient;
  return ConvolutionDirection::weight_gradient;
}

/// (K, C/groups, kh, kw) and (K, kh, kw, C/groups) are the same where one of the two transposed sizes is 1.
bool same_in_both_orders(const Shape& weights) { return weights[1] == 1 || weights[2] * weights[3] == 1; }

}  // namespace

ConvolutionCall convolution_call(const Op& op, bool tf32) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  const Conv2dOperands operands = operands_of(op);
  const bool is_forward = op.kind == OpKind::conv2d;
  return {.direction = direction_of(op),
          .type = operands.x.dtype,
          .x = image_of(operands.x),
          .y = image_of(operands.y),
          .kernel = attributes.kernel,
          .stride = attributes.stride,
          .padding = attributes.padding,
          .dilation = attributes.dilation,
          .groups = attributes.groups,
          .bias = is_forward && attributes.bias,
          .relu = is_forward && attributes.bias && attributes.relu,
          .tf32 = tf32 && operands.x.dtype == DType::f32,
          .workspace_limit = attributes.workspace_limit};
}

Conv2dWorkspace conv2d_workspace(const Op& op, std::int64_t library_bytes) {
  const Conv2dOperands operands = operands_of(op);
  Conv2dWorkspace workspace{.num_bytes = library_bytes};
  const auto add = [&workspace](std::int64_t num_bytes) {
    const std::int64_t offset = (workspace.num_bytes + 511) / 512 * 512;
    workspace.num_bytes = offset + num_bytes;
    return offset;
  };
  if (!same_in_both_orders(operands.weights.shape)) workspace.weights = add(operands.weights.num_bytes());
  if (op.kind == OpKind::conv2d_backward_weight && op.outputs.size() > 1) {
    const std::int64_t columns = operands.y.shape[3];
    const std::int64_t partial_bytes = bias_gradient_workspace_bytes(operands.y.num_elements() / columns, columns);
    if (partial_bytes > 0) workspace.bias_gradient = add(partial_bytes);
  }
  return workspace;
}

std::int64_t conv2d_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  return conv2d_workspace(op, model.convolutions->workspace_bytes(convolution_call(op, model.tf32))).num_bytes;
}

}  // namespace trainer::cuda
