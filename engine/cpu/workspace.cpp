#include "engine/cpu/kernels.h"
#include "engine/cpu/sliced_kernel.h"

namespace trainer {

// No default: the compiler reports an op that is missing here.
std::int64_t compute_workspace_bytes(const Op& op, CpuContext& context) {
  if (runs_in_slices(op)) return sliced_workspace_bytes(op, context);
  switch (op.kind) {
    case OpKind::linear:
    case OpKind::linear_backward_input:
    case OpKind::linear_backward_weight:
      return linear_workspace_bytes(op, context);
    case OpKind::linear_cross_entropy:
    case OpKind::linear_cross_entropy_with_gradient:
      return linear_cross_entropy_workspace_bytes(op, context);
    case OpKind::conv2d:
    case OpKind::conv2d_backward_input:
    case OpKind::conv2d_backward_weight:
      return conv2d_workspace_bytes(op, context);
    case OpKind::batchnorm2d:
    case OpKind::batchnorm2d_normalize:
    case OpKind::batchnorm2d_inference:
    case OpKind::batchnorm2d_backward:
      return batchnorm2d_workspace_bytes(op, context);
    case OpKind::layernorm:
    case OpKind::layernorm_backward:
      return layernorm_workspace_bytes(op, context);
    case OpKind::cross_entropy:
    case OpKind::cross_entropy_with_gradient:
    case OpKind::mse:
    case OpKind::bce_with_logits:
      return loss_workspace_bytes(op);
    case OpKind::gradient_factor:
      return gradient_factor_workspace_bytes(op);
    case OpKind::normalize_pixels:
    case OpKind::cast:
    case OpKind::scale_gradient:
    case OpKind::update_loss_scale:
    case OpKind::offload:
    case OpKind::fetch:
    case OpKind::activation:
    case OpKind::activation_backward:
    case OpKind::maxpool2d:
    case OpKind::maxpool2d_backward:
    case OpKind::avgpool2d:
    case OpKind::avgpool2d_backward:
    case OpKind::global_avgpool:
    case OpKind::global_avgpool_backward:
    case OpKind::flatten:
    case OpKind::flatten_backward:
    case OpKind::dropout:
    case OpKind::dropout_backward:
    case OpKind::add:
    case OpKind::cross_entropy_backward:
    case OpKind::mse_backward:
    case OpKind::bce_with_logits_backward:
    case OpKind::start_loss_statistics:
    case OpKind::sgd_update:
    case OpKind::adam_update:
      return 0;
  }
  throw InternalError("internal error: an op of no known kind");
}

}  // namespace trainer
