#include "engine/ops/finish_exchange.h"

#include <utility>

#include "engine/ops/elementwise.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Calls `visit(starts)` with what tells whether `op` is started; of other ops there is nothing to tell.
template <typename AnyOp, typename Visit>
void visit_start(AnyOp& op, Visit&& visit) {
  if (op.kind == OpKind::all_reduce) return visit(std::get_if<AllReduceAttributes>(&op.attributes)->starts);
  if (op.kind == OpKind::send || op.kind == OpKind::receive)
    return visit(std::get_if<PeerAttributes>(&op.attributes)->starts);
  if (op.kind == OpKind::reduce_scatter || op.kind == OpKind::all_gather)
    visit(std::get_if<RankPartsAttributes>(&op.attributes)->starts);
}

Op with_start(Op op, bool starts) {
  visit_start(op, [&](bool& of_op) { of_op = starts; });
  return op;
}

}  // namespace

Op finish_exchange_op(std::span<const TensorType> tensors) {
  require_internal(!tensors.empty(), "an exchange is of tensors");
  return {OpKind::finish_exchange, {}, {tensors.begin(), tensors.end()}, {}};
}

bool is_exchange(const Op& op) { return communicates(op) && op.kind != OpKind::finish_exchange; }

bool communicates(const Op& op) {
  return definition_of(op.kind).role == Role::communication || ranks_of_linear_cross_entropy(op) != nullptr;
}

const RankGroup& ranks_of(const Op& exchange) {
  if (const RankGroup* const ranks = ranks_of_linear_cross_entropy(exchange)) return *ranks;
  if (exchange.kind == OpKind::all_reduce) return attributes_of<AllReduceAttributes>(exchange).ranks;
  if (exchange.kind == OpKind::broadcast) return attributes_of<BroadcastAttributes>(exchange).ranks;
  if (exchange.kind == OpKind::send || exchange.kind == OpKind::receive)
    return attributes_of<PeerAttributes>(exchange).ranks;
  return attributes_of<RankPartsAttributes>(exchange).ranks;
}

Op started(Op op) {
  op = with_start(std::move(op), true);
  require_internal(is_started(op), "what ranks exchange while they train can be started");
  return op;
}

Op to_its_end(Op op) { return with_start(std::move(op), false); }

bool is_started(const Op& op) {
  bool starts = false;
  visit_start(op, [&](bool of_op) { starts = of_op; });
  return starts;
}

const OpDefinition finish_exchange_definition = {.flops = flops_per_input_element<0>, .role = Role::communication};

}  // namespace trainer
