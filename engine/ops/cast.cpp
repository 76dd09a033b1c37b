#include "engine/ops/cast.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op cast_op(const TensorType& x, DType to) { return {OpKind::cast, std::monostate{}, {x}, {{to, x.shape}}}; }

namespace {

void differentiate_cast(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  const Op back = cast_op(scope.op().outputs[0], scope.op().inputs[0].dtype);
  scope.set_gradient(0, scope.emit(back, {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition cast_definition = {.flops = flops_per_input_element<1>,
                                      .differentiate = differentiate_cast,
                                      .in_place = in_place_over_first,
                                      .is_cheap = true};

}  // namespace trainer
