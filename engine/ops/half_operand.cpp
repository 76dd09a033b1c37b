#include "engine/ops/half_operand.h"

#include <algorithm>

#include "engine/half.h"

namespace trainer {

bool has_half_operand(const Op& op) {
  const auto is_half = [](const TensorType& type) { return is_16_bit(type.dtype); };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_half) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_half);
}

}  // namespace trainer
