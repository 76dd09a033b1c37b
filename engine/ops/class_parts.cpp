#include "engine/ops/class_parts.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op class_statistics_op(const TensorType& logits, const TensorType& targets, const ClassPartAttributes& attributes) {
  return {OpKind::class_statistics,
          attributes,
          {logits, targets},
          {{DType::f32, {targets.num_elements(), attributes.ranks.count, num_class_statistics}}}};
}

Op class_order_op(const Op& class_statistics) {
  return {OpKind::class_order,
          class_statistics.attributes,
          {class_statistics.inputs[0], class_statistics.inputs[1], class_statistics.outputs[0]},
          {{DType::f32, {class_statistics.inputs[1].num_elements()}}}};
}

Op cross_entropy_of_parts_op(const Op& class_statistics) {
  const Op order = class_order_op(class_statistics);
  return {OpKind::cross_entropy_of_parts,
          class_statistics.attributes,
          {order.inputs[0], order.inputs[1], order.inputs[2], order.outputs[0], loss_statistics_type()},
          {}};
}

Op cross_entropy_of_parts_backward_op(const Op& loss) {
  return {OpKind::cross_entropy_of_parts_backward,
          loss.attributes,
          {loss.inputs[0], loss.inputs[1], loss.inputs[2]},
          {loss.inputs[0]}};
}

namespace {

void differentiate_cross_entropy_of_parts(GradientScope& scope) {
  const Op op = cross_entropy_of_parts_backward_op(scope.op());
  scope.set_gradient(0, scope.emit(op, {scope.input(0), scope.input(1), scope.input(2)})[0]);
}

bool is_statistics_of_parts(const Op& /*op*/, int position) { return position == 4; }

/// An exponential of each rank's, and a logarithm.
std::int64_t flops_of_statistics(const Op& op) { return op.inputs[2].num_elements(); }
std::int64_t bytes_of_statistics(const Op& op) {
  return op.inputs[1].num_bytes() + op.inputs[2].num_bytes() + op.inputs[3].num_bytes();
}

}  // namespace

const OpDefinition class_statistics_definition = {.flops = flops_per_input_element<4>};
const OpDefinition class_order_definition = {.flops = flops_per_input_element<1>};
const OpDefinition cross_entropy_of_parts_definition = {.flops = flops_of_statistics,
                                                        .num_bytes = bytes_of_statistics,
                                                        .differentiate = differentiate_cross_entropy_of_parts,
                                                        .modifies = is_statistics_of_parts,
                                                        .takes_scratch = true};
const OpDefinition cross_entropy_of_parts_backward_definition = {.flops = flops_per_input_element<3>,
                                                                 .in_place = in_place_over_first};

}  // namespace trainer
