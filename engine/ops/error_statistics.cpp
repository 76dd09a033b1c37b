#include "engine/ops/error_statistics.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op error_statistics_op(const TensorType& prediction, const TensorType& targets) {
  return {OpKind::error_statistics, std::monostate{}, {prediction, targets, {DType::f64, {num_error_statistics}}}, {}};
}

namespace {

bool are_error_sums(const Op& /*op*/, int position) { return position == 2; }

}  // namespace

const OpDefinition error_statistics_definition = {
    .flops = flops_per_input_element<7>, .modifies = are_error_sums, .takes_scratch = true};

}  // namespace trainer
