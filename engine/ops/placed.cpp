#include "engine/ops/placed.h"

#include <utility>

#include "engine/ops/elementwise.h"

namespace trainer {

Op placed_op(Op op, const TensorType& whole, std::int64_t first, bool continues) {
  const TensorType part = op.outputs[0];
  TensorType alike = part;
  alike.shape[-1] = whole.shape[-1];
  require_internal(op.placed_at < 0 && part == op.inputs[0] && alike == whole, "a part of a whole is placed in it");
  require_internal(first >= 0 && first + part.shape[-1] <= whole.shape[-1] && part != whole,
                   "a placed output lies within the channels of a larger one");
  op.outputs[0] = whole;
  op.placed_at = first;
  if (continues) op.inputs.push_back(whole);
  return op;
}

Op place_channels_op(const TensorType& x, const TensorType& whole, std::int64_t first, bool continues) {
  return placed_op({OpKind::place_channels, std::monostate{}, {x}, {x}}, whole, first, continues);
}

bool continues_whole(const Op& op) { return op.placed_at >= 0 && op.inputs.back() == op.outputs[0]; }

const OpDefinition place_channels_definition = {
    .flops = flops_per_input_element<0>, .is_cheap = true, .can_be_placed = true};

}  // namespace trainer
