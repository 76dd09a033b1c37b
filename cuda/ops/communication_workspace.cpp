#include <array>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

constexpr std::array communication_kinds = {OpKind::all_reduce, OpKind::reduce_scatter};

/// NCCL adds up in buffers of its own.
std::int64_t no_workspace_bytes(const Op&, const WorkspaceModel&) { return 0; }

}  // namespace

const ScratchRule communication_scratch = {communication_kinds, no_workspace_bytes};

}  // namespace trainer::cuda
