#include "engine/ops/part_statistics.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {
namespace {

std::vector<TensorType> operands_of(const PartStatisticsAttributes& attributes) {
  return {loss_statistics_type(attributes.num_terms),
          loss_statistics_type(attributes.num_terms * attributes.num_parts)};
}

}  // namespace

Op keep_part_statistics_op(const PartStatisticsAttributes& attributes) {
  return {OpKind::keep_part_statistics, attributes, operands_of(attributes), {}};
}

Op sum_part_statistics_op(const PartStatisticsAttributes& attributes) {
  return {OpKind::sum_part_statistics, attributes, operands_of(attributes), {}};
}

const OpDefinition keep_part_statistics_definition = {.flops = flops_per_input_element<0>};
const OpDefinition sum_part_statistics_definition = {.flops = flops_per_input_element<0>};

}  // namespace trainer
