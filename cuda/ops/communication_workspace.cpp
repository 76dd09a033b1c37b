#include <array>

#include "cuda/ops/kernels.h"
#include "engine/memory/rounding.h"

namespace trainer::cuda {

namespace {

constexpr std::array communication_kinds = {OpKind::all_reduce, OpKind::reduce_scatter};

/// NCCL adds up in buffers of its own; what is added to something else then has one here.
std::int64_t communication_workspace_bytes(const Op& op, const WorkspaceModel&) {
  if (op.kind != OpKind::reduce_scatter || !attributes_of<RankPartsAttributes>(op).adds) return 0;
  std::int64_t num_bytes = 0;
  for (auto i = static_cast<std::size_t>(attributes_of<RankPartsAttributes>(op).num_tensors); i < op.inputs.size(); ++i)
    num_bytes += round_to_blocks(op.inputs[i].num_bytes());
  return num_bytes;
}

}  // namespace

const ScratchRule communication_scratch = {communication_kinds, communication_workspace_bytes};

}  // namespace trainer::cuda
