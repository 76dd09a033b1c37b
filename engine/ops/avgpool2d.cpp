#include "engine/ops/avgpool2d.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op avgpool2d_op(const TensorType& x, const Pool2dAttributes& attributes) {
  require_image(x, "avgpool2d");
  return {OpKind::avgpool2d, attributes, {x}, {{x.dtype, pooled_shape(x.shape, attributes)}}};
}

Op avgpool2d_backward_op(const Op& avgpool2d) {
  return {OpKind::avgpool2d_backward, avgpool2d.attributes, avgpool2d.outputs, avgpool2d.inputs};
}

namespace {

std::int64_t avgpool2d_window_flops(const Op& op) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  const TensorType& pooled = op.kind == OpKind::avgpool2d ? op.outputs[0] : op.inputs[0];
  return flops_product(pooled.num_elements(), attributes.kernel[0], attributes.kernel[1]);
}

void differentiate_avgpool2d(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(avgpool2d_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition avgpool2d_definition = {.flops = avgpool2d_window_flops,
                                           .differentiate = differentiate_avgpool2d,
                                           .precision = Precision::follows,
                                           .is_cheap = true};
const OpDefinition avgpool2d_backward_definition = {.flops = avgpool2d_window_flops};

}  // namespace trainer
