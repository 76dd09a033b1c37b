#include "engine/ops/upsample.h"

#include <fmt/format.h>

#include <limits>

#include "engine/ops/elementwise.h"

namespace trainer {

Op upsample_op(const TensorType& x, const UpsampleAttributes& attributes, const Pair& size) {
  require_image(x, "upsample");
  Shape y = x.shape;
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t scale = attributes.scale[axis];
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (scale > 0 && y[1 + axis] > most / scale)
      throw ShapeError(fmt::format("upsample cannot make {} times as much of its input {}: sizes are below 2^31", scale,
                                   x.shape.to_string()));
    y[1 + axis] = scale > 0 ? y[1 + axis] * scale : size[axis];
  }
  return {OpKind::upsample, attributes, {x}, {{x.dtype, y}}};
}

Op upsample_backward_op(const Op& upsample) {
  return {OpKind::upsample_backward, upsample.attributes, upsample.outputs, upsample.inputs};
}

namespace {

std::int64_t upsample_flops(const Op& op) {
  const TensorType& y = op.kind == OpKind::upsample ? op.outputs[0] : op.inputs[0];
  const bool is_bilinear = attributes_of<UpsampleAttributes>(op).mode == Interpolation::bilinear;
  return flops_product(is_bilinear ? 8 : op.kind == OpKind::upsample ? 0 : 1, y.num_elements(), 1);
}

void differentiate_upsample(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(upsample_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition upsample_definition = {.flops = upsample_flops,
                                          .differentiate = differentiate_upsample,
                                          .precision = Precision::follows,
                                          .is_cheap = true};
const OpDefinition upsample_backward_definition = {.flops = upsample_flops};

}  // namespace trainer
