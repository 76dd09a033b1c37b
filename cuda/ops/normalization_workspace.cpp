#include <array>

#include "cuda/ops/kernels.h"
#include "cuda/ops/row_shapes.h"

namespace trainer::cuda {

namespace {

constexpr std::array batchnorm2d_kinds = {OpKind::batchnorm2d,
                                          OpKind::batchnorm2d_normalize,
                                          OpKind::batchnorm2d_inference,
                                          OpKind::batchnorm2d_inference_backward,
                                          OpKind::batchnorm2d_backward,
                                          OpKind::batchnorm2d_sums,
                                          OpKind::batchnorm2d_gradient_sums,
                                          OpKind::batchnorm2d_normalize_backward};

std::int64_t batchnorm2d_workspace_bytes(const Op& op, const WorkspaceModel&) {
  if (op.kind == OpKind::batchnorm2d) return batchnorm2d_forward_workspace_bytes(batchnorm2d_shape(op));
  if (op.kind == OpKind::batchnorm2d_backward) return batchnorm2d_backward_workspace_bytes(batchnorm2d_shape(op));
  if (op.kind == OpKind::batchnorm2d_sums || op.kind == OpKind::batchnorm2d_gradient_sums)
    return batchnorm2d_sums_workspace_bytes(batchnorm2d_shape(op));
  if (op.kind == OpKind::batchnorm2d_normalize_backward)
    return batchnorm2d_normalize_backward_workspace_bytes(batchnorm2d_shape(op));
  return 0;
}

constexpr std::array layernorm_kinds = {OpKind::layernorm, OpKind::layernorm_backward};

std::int64_t layernorm_workspace_bytes(const Op& op, const WorkspaceModel&) {
  if (op.kind == OpKind::layernorm || !attributes_of<LayerNormAttributes>(op).affine) return 0;
  return layernorm_gradient_workspace_bytes(layernorm_shape(op));
}

constexpr std::array groupnorm_kinds = {OpKind::groupnorm, OpKind::groupnorm_normalize, OpKind::groupnorm_backward};

std::int64_t groupnorm_workspace_bytes(const Op& op, const WorkspaceModel&) {
  if (op.kind == OpKind::groupnorm) return groupnorm_forward_workspace_bytes(groupnorm_shape(op));
  if (op.kind == OpKind::groupnorm_normalize) return 0;
  return groupnorm_backward_workspace_bytes(groupnorm_shape(op), attributes_of<GroupNormAttributes>(op).affine);
}

}  // namespace

const ScratchRule batchnorm2d_scratch = {batchnorm2d_kinds, batchnorm2d_workspace_bytes};
const ScratchRule layernorm_scratch = {layernorm_kinds, layernorm_workspace_bytes};
const ScratchRule groupnorm_scratch = {groupnorm_kinds, groupnorm_workspace_bytes};

}  // namespace trainer::cuda
