#include "engine/ops/repeat_row.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op repeat_row_op(const TensorType& row, std::int64_t rows) {
  require_internal(row.shape.rank() == 1, "a row has one dimension");
  return {OpKind::repeat_row, std::monostate{}, {row}, {{row.dtype, {rows, row.shape[0]}}}};
}

Op sum_rows_op(const Op& repeat_row) {
  return {OpKind::sum_rows, std::monostate{}, repeat_row.outputs, repeat_row.inputs};
}

namespace {

void differentiate_repeat_row(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(sum_rows_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition repeat_row_definition = {.flops = flops_per_input_element<0>,
                                            .differentiate = differentiate_repeat_row,
                                            .precision = Precision::follows,
                                            .is_cheap = true};
const OpDefinition sum_rows_definition = {.flops = flops_per_input_element<1>, .role = Role::weight_gradient};

}  // namespace trainer
