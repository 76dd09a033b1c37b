#include <array>

#include "cuda/ops/kernels.h"
#include "cuda/ops/row_shapes.h"

namespace trainer::cuda {

namespace {

constexpr std::array prelu_kinds = {OpKind::prelu_backward};

std::int64_t prelu_workspace_bytes(const Op& op, const WorkspaceModel&) {
  return prelu_backward_workspace_bytes(prelu_shape(op));
}

}  // namespace

const ScratchRule prelu_scratch = {prelu_kinds, prelu_workspace_bytes};

}  // namespace trainer::cuda
