#include "engine/ops/broadcast.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/op_definition.h"

namespace trainer {

Op broadcast_op(std::span<const TensorType> tensors, const RankGroup& ranks) {
  require_internal(ranks.count >= 1 && !tensors.empty(), "ranks share tensors");
  return {OpKind::broadcast, BroadcastAttributes{ranks}, {tensors.begin(), tensors.end()}, {}};
}

const OpDefinition broadcast_definition = {.flops = flops_per_input_element<0>, .role = Role::communication};

}  // namespace trainer
