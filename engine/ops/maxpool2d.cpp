#include "engine/ops/maxpool2d.h"

#include <fmt/format.h>

#include "engine/ops/elementwise.h"

namespace trainer {

Shape pooled_shape(const Shape& x, const Pool2dAttributes& attributes) {
  Shape y = x;
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t padded = x[1 + axis] + 2 * attributes.padding[axis];
    if (padded < attributes.kernel[axis]) {
      throw ShapeError(fmt::format("a pooling window of {}×{} does not fit into its input {}", attributes.kernel[0],
                                   attributes.kernel[1], x.to_string()));
    }
    if (2 * attributes.padding[axis] > attributes.kernel[axis]) {
      throw ShapeError(fmt::format("the padding {}×{} of a pooling layer is more than half of its window {}×{}",
                                   attributes.padding[0], attributes.padding[1], attributes.kernel[0],
                                   attributes.kernel[1]));
    }
    const std::int64_t stride = attributes.stride[axis];
    const std::int64_t steps = padded - attributes.kernel[axis];
    y[1 + axis] = steps / stride + 1;
    const bool has_rest = attributes.ceil_mode && steps % stride != 0;
    if (has_rest && y[1 + axis] * stride < x[1 + axis] + attributes.padding[axis]) ++y[1 + axis];
  }
  return y;
}

Op maxpool2d_op(const TensorType& x, const Pool2dAttributes& attributes) {
  require_image(x, "maxpool2d");
  if (attributes.kernel[0] > 16 || attributes.kernel[1] > 16) {
    throw ShapeError(fmt::format("maxpool2d takes windows of at most 16×16; this one is {}×{}", attributes.kernel[0],
                                 attributes.kernel[1]));
  }
  const Shape y = pooled_shape(x.shape, attributes);
  Op op{OpKind::maxpool2d, attributes, {x}, {{x.dtype, y}}};
  if (attributes.keep_indices) op.outputs.push_back({DType::u8, y});
  return op;
}

Op maxpool2d_backward_op(const Op& maxpool2d) {
  return {OpKind::maxpool2d_backward, maxpool2d.attributes, maxpool2d.outputs, maxpool2d.inputs};
}

namespace {

std::int64_t maxpool2d_window_flops(const Op& op) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return flops_product(op.outputs[0].num_elements(), attributes.kernel[0], attributes.kernel[1]);
}

void differentiate_maxpool2d(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(maxpool2d_backward_op(scope.op()), {scope.output_gradient(), scope.output(1)})[0]);
}

/// The indices are kept.
Rerun rerun_maxpool2d(const Op& op) {
  Pool2dAttributes attributes = attributes_of<Pool2dAttributes>(op);
  attributes.keep_indices = false;
  return {.op = maxpool2d_op(op.inputs[0], attributes), .reads = {0}, .makes = {0}};
}

}  // namespace

const OpDefinition maxpool2d_definition = {.flops = maxpool2d_window_flops,
                                           .differentiate = differentiate_maxpool2d,
                                           .precision = Precision::follows,
                                           .is_cheap = true,
                                           .rerun = rerun_maxpool2d};
const OpDefinition maxpool2d_backward_definition = {.flops = flops_per_input_element<1>};

}  // namespace trainer
