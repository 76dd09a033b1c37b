#include "engine/ops/offload.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op offload_op(const TensorType& x, const OffloadAttributes& attributes) {
  return {OpKind::offload, attributes, {x}, {}};
}

Op fetch_op(const TensorType& y, const OffloadAttributes& attributes) {
  if (attributes.finish) return {OpKind::fetch, attributes, {y}, {}};
  return {OpKind::fetch, attributes, {}, {y}};
}

namespace {

std::int64_t transfer_flops(const Op&) { return 0; }

}  // namespace

const OpDefinition offload_definition = {.flops = transfer_flops, .role = Role::transfer};
const OpDefinition fetch_definition = {.flops = transfer_flops, .role = Role::transfer};

}  // namespace trainer
