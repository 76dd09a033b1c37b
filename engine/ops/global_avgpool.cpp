#include "engine/ops/global_avgpool.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op global_avgpool_op(const TensorType& x) {
  require_image(x, "global_avgpool");
  return {OpKind::global_avgpool, std::monostate{}, {x}, {{x.dtype, {x.shape[0], x.shape[3]}}}};
}

Op global_avgpool_backward_op(const Op& global_avgpool) {
  return {OpKind::global_avgpool_backward, std::monostate{}, global_avgpool.outputs, global_avgpool.inputs};
}

namespace {

std::int64_t backward_flops(const Op& op) { return op.outputs[0].num_elements(); }

void differentiate_global_avgpool(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(global_avgpool_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition global_avgpool_definition = {.flops = flops_per_input_element<1>,
                                                .differentiate = differentiate_global_avgpool,
                                                .precision = Precision::follows,
                                                .is_cheap = true};
const OpDefinition global_avgpool_backward_definition = {.flops = backward_flops};

}  // namespace trainer
