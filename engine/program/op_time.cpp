#include "engine/program/op_time.h"

#include <algorithm>

#include "engine/ops/op_definition.h"

namespace trainer {

double estimated_time(const Op& op) {
  const OpDefinition& definition = definition_of(op.kind);
  std::int64_t num_bytes = 0;
  if (definition.num_bytes != nullptr) {
    num_bytes = definition.num_bytes(op);
  } else {
    for (const auto* operands : {&op.inputs, &op.outputs})
      for (const TensorType& type : *operands) num_bytes += type.num_bytes();
  }
  return std::max(static_cast<double>(definition.flops(op)), flops_per_byte * static_cast<double>(num_bytes));
}

}  // namespace trainer
