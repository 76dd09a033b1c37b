#include "engine/ops/loss_statistics.h"

#include "engine/ops/elementwise.h"
#include "engine/shape.h"

namespace trainer {

TensorType loss_statistics_type(int num_terms) { return {DType::f64, {num_terms * num_loss_statistics}}; }

const LossTerm& loss_term_of(const Op& op) {
  if (const auto* term = std::get_if<LossTerm>(&op.attributes)) return *term;
  if (const auto* smooth_l1 = std::get_if<SmoothL1Attributes>(&op.attributes)) return smooth_l1->term;
  if (const auto* dice = std::get_if<DiceAttributes>(&op.attributes)) return dice->term;
  return attributes_of<CrossEntropyAttributes>(op).term;
}

Op start_loss_statistics_op(const LossStatisticsAttributes& attributes) {
  return {OpKind::start_loss_statistics, attributes, {loss_statistics_type(attributes.num_terms)}, {}};
}

const OpDefinition start_loss_statistics_definition = {.flops = flops_per_input_element<0>};

}  // namespace trainer
