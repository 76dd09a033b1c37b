#include "cuda/ops/kernels.h"
#include "cuda/ops/row_shapes.h"

namespace trainer::cuda {

std::int64_t batchnorm2d_workspace_bytes(const Op& op) {
  if (op.kind == OpKind::batchnorm2d) return batchnorm2d_forward_workspace_bytes(batchnorm2d_shape(op));
  if (op.kind == OpKind::batchnorm2d_backward) return batchnorm2d_backward_workspace_bytes(batchnorm2d_shape(op));
  return 0;
}

std::int64_t layernorm_backward_workspace_bytes(const Op& op) {
  if (!attributes_of<LayerNormAttributes>(op).affine) return 0;
  return layernorm_gradient_workspace_bytes(layernorm_shape(op));
}

}  // namespace trainer::cuda
