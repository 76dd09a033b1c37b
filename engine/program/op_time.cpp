#include "engine/program/op_time.h"

#include <algorithm>

#include "engine/ops/op_definition.h"

namespace trainer {

double estimated_time(const Op& op) {
  std::int64_t num_bytes = 0;
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const TensorType& type : *operands) num_bytes += type.num_bytes();
  return std::max(static_cast<double>(definition_of(op.kind).flops(op)),
                  flops_per_byte * static_cast<double>(num_bytes));
}

}  // namespace trainer
