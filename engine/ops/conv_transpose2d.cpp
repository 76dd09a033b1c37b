#include "engine/ops/conv_transpose2d.h"

#include <fmt/format.h>

#include "engine/ops/elementwise.h"

namespace trainer {

namespace {

constexpr std::int64_t most_pixels = std::int64_t{1} << 31;

/// The size of y along one axis.
std::int64_t transposed_size(const ConvTranspose2dOptions& options, std::size_t axis, const Shape& x) {
  const std::int64_t in = x[1 + static_cast<int>(axis)];
  const auto too_large = [&] {
    return ShapeError(
        fmt::format("conv_transpose2d of its input {} has more than 2^31 pixels along an axis", x.to_string()));
  };
  // Each number is below 2^31, and so their products in 64 bits and the sum of two.
  const std::int64_t reach = options.dilation[axis] * (options.kernel[axis] - 1) + 1;
  if (in > most_pixels || reach > most_pixels || (in - 1) * options.stride[axis] > most_pixels) throw too_large();
  return (in - 1) * options.stride[axis] + reach + options.output_padding[axis] - 2 * options.padding[axis];
}

}  // namespace

Op conv_transpose2d_op(const TensorType& x, const ConvTranspose2dOptions& options) {
  require_image(x, "conv_transpose2d");
  const std::int64_t channels = x.shape[3];
  if (channels % options.groups != 0 || options.out % options.groups != 0) {
    throw ShapeError(
        fmt::format("conv_transpose2d with groups {} needs input and output channels divisible by it; its input is {} "
                    "and out is {}",
                    options.groups, x.shape.to_string(), options.out));
  }
  Shape y{x.shape[0], 0, 0, options.out};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    require_internal(options.output_padding[axis] < options.stride[axis], "an output padding is below the stride");
    const std::int64_t size = transposed_size(options, axis, x.shape);
    if (size < 1) {
      throw ShapeError(
          fmt::format("conv_transpose2d with kernel {}×{}, stride {}×{} and padding {}×{} leaves nothing of "
                      "its input {}",
                      options.kernel[0], options.kernel[1], options.stride[0], options.stride[1], options.padding[0],
                      options.padding[1], x.shape.to_string()));
    }
    y[1 + static_cast<int>(axis)] = size;
  }
  const Conv2dAttributes attributes{.out = channels,
                                    .kernel = options.kernel,
                                    .stride = options.stride,
                                    .padding = options.padding,
                                    .dilation = options.dilation,
                                    .groups = options.groups,
                                    .bias = options.bias,
                                    .workspace_limit = options.workspace_limit};
  const Shape weight{channels, options.kernel[0], options.kernel[1], options.out / options.groups};
  Op op{OpKind::conv_transpose2d, attributes, {x, {x.dtype, weight}}, {{x.dtype, y}}};
  if (options.bias) op.inputs.push_back({x.dtype, {options.out}});
  return op;
}

Op conv_transpose2d_backward_input_op(const Op& conv_transpose2d) {
  Conv2dAttributes attributes = attributes_of<Conv2dAttributes>(conv_transpose2d);
  attributes.bias = false;
  return conv2d_op(conv_transpose2d.outputs[0], attributes);
}

Op conv_transpose2d_backward_weight_op(const Op& conv_transpose2d) {
  Op op{OpKind::conv_transpose2d_backward_weight,
        conv_transpose2d.attributes,
        {conv_transpose2d.outputs[0], conv_transpose2d.inputs[0]},
        {conv_transpose2d.inputs[1]}};
  if (attributes_of<Conv2dAttributes>(conv_transpose2d).bias) op.outputs.push_back(conv_transpose2d.inputs[2]);
  return op;
}

Op convolution_of_transposed(const Op& op) {
  Conv2dAttributes attributes = attributes_of<Conv2dAttributes>(op);
  attributes.bias = false;
  if (op.kind == OpKind::conv_transpose2d)
    return {OpKind::conv2d_backward_input, attributes, {op.inputs[0], op.inputs[1]}, op.outputs};
  return {OpKind::conv2d_backward_weight, attributes, {op.inputs[1], op.inputs[0]}, {op.outputs[0]}};
}

namespace {

std::int64_t conv_transpose2d_flops(const Op& op) {
  const Op convolution = convolution_of_transposed(op);
  return definition_of(convolution.kind).flops(convolution);
}

void differentiate_conv_transpose2d(GradientScope& scope) {
  const Operand gradient = scope.output_gradient();
  if (scope.needs_gradient(1)) {
    const auto outputs = scope.emit(conv_transpose2d_backward_weight_op(scope.op()), {gradient, scope.input(0)});
    scope.set_gradient(1, outputs[0]);
    if (attributes_of<Conv2dAttributes>(scope.op()).bias) scope.set_gradient(2, outputs[1]);
  }
  if (scope.needs_gradient(0))
    scope.set_gradient(0, scope.emit(conv_transpose2d_backward_input_op(scope.op()), {gradient, scope.input(1)})[0]);
}

}  // namespace

const OpDefinition conv_transpose2d_definition = {.flops = conv_transpose2d_flops,
                                                  .differentiate = differentiate_conv_transpose2d,
                                                  .precision = Precision::product,
                                                  .work = Work::convolution,
                                                  .takes_scratch = true};
const OpDefinition conv_transpose2d_backward_weight_definition = {
    .flops = conv_transpose2d_flops, .work = Work::convolution, .role = Role::weight_gradient, .takes_scratch = true};

}  // namespace trainer
