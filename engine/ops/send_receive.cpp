#include "engine/ops/send_receive.h"

#include <algorithm>

#include "engine/ops/op_definition.h"

namespace trainer {

PeerAttributes peer_attributes(std::int64_t rank, std::int64_t peer, std::int32_t message, bool returns_gradient) {
  require_internal(rank != peer, "a stage sends to another");
  const std::int64_t first = std::min(rank, peer);
  return {.ranks = {2, first, std::max(rank, peer) - first},
          .place = rank == first ? 0 : 1,
          .message = message,
          .returns_gradient = returns_gradient};
}

Op send_op(const TensorType& tensor, const PeerAttributes& attributes) {
  require_internal(attributes.ranks.count <= 2, "a tensor is sent to one rank");
  return {OpKind::send, attributes, {tensor}, {}};
}

Op receive_op(const TensorType& tensor, const PeerAttributes& attributes) {
  require_internal(attributes.ranks.count <= 2, "a tensor is received from one rank");
  return {OpKind::receive, attributes, {}, {tensor}};
}

namespace {

std::int64_t no_flops_of_message(const Op&) { return 0; }

void differentiate_send(GradientScope& scope) {
  const auto& attributes = attributes_of<PeerAttributes>(scope.op());
  if (!attributes.returns_gradient || !scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(receive_op(scope.op().inputs[0], attributes), {})[0]);
}

void differentiate_receive(GradientScope& scope) {
  const auto& attributes = attributes_of<PeerAttributes>(scope.op());
  if (attributes.returns_gradient) scope.emit(send_op(scope.op().outputs[0], attributes), {scope.output_gradient()});
}

bool sends_modify_nothing(const Op&, int) { return false; }

}  // namespace

const OpDefinition send_definition = {.flops = no_flops_of_message,
                                      .differentiate = differentiate_send,
                                      .role = Role::communication,
                                      .modifies = sends_modify_nothing,
                                      .runs_once = true};
const OpDefinition receive_definition = {.flops = no_flops_of_message,
                                         .differentiate = differentiate_receive,
                                         .role = Role::communication,
                                         .runs_once = true};

}  // namespace trainer
