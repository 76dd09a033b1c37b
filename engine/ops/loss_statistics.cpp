#include "engine/ops/loss_statistics.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op start_loss_statistics_op(const LossStatisticsAttributes& attributes) {
  return {OpKind::start_loss_statistics, attributes, {{DType::f64, {num_loss_statistics}}}, {}};
}

const OpDefinition start_loss_statistics_definition = {.flops = flops_per_input_element<0>};

}  // namespace trainer
