#include "engine/ops/loss_scale.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/gradient_factor.h"
#include "engine/ops/loss_statistics.h"

namespace trainer {

namespace {

const TensorType loss_scale_type{DType::f64, {num_loss_scale_values}};

std::int64_t loss_scale_flops(const Op&) { return 0; }

}  // namespace

Op scale_gradient_op(const TensorType& x) {
  return {OpKind::scale_gradient, std::monostate{}, {x, loss_scale_type}, {x}};
}

Op update_loss_scale_op(const LossScaleAttributes& attributes) {
  return {OpKind::update_loss_scale,
          attributes,
          {{DType::f64, {num_loss_statistics}}, {DType::f32, {num_gradient_factors}}, loss_scale_type},
          {}};
}

const OpDefinition scale_gradient_definition = {.flops = flops_per_input_element<1>, .in_place = in_place_over_first};
const OpDefinition update_loss_scale_definition = {.flops = loss_scale_flops};

}  // namespace trainer
