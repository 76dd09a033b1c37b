#include "engine/ops/flatten.h"

#include "engine/ops/elementwise.h"

namespace trainer {

bool flatten_is_view(const Shape& x) { return x.rank() != 4 || x[3] == 1 || x[1] * x[2] == 1; }

Op flatten_op(const TensorType& x) {
  require_image(x, "flatten");
  const std::int64_t features = x.shape[1] * x.shape[2] * x.shape[3];
  return {OpKind::flatten, std::monostate{}, {x}, {{x.dtype, {x.shape[0], features}}}};
}

Op flatten_backward_op(const Op& flatten) {
  return {OpKind::flatten_backward, std::monostate{}, flatten.outputs, flatten.inputs};
}

namespace {

void differentiate_flatten(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(flatten_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition flatten_definition = {.flops = flops_per_input_element<0>,
                                         .differentiate = differentiate_flatten,
                                         .precision = Precision::follows,
                                         .is_cheap = true};
const OpDefinition flatten_backward_definition = {.flops = flops_per_input_element<0>};

}  // namespace trainer
