#include <numeric>

#include "cuda/kernels/cross_entropy.h"
#include "cuda/kernels/gradient_factor.h"
#include "cuda/kernels/numeric_loss.h"
#include "cuda/ops/cross_entropy_shape_of.h"
#include "cuda/ops/kernels.h"
#include "engine/device/loss_chunk_runner.h"

namespace trainer::cuda {

std::int64_t loss_workspace_bytes(const Op& op) {
  const auto* const attributes = std::get_if<CrossEntropyAttributes>(&op.attributes);
  if (attributes == nullptr) return numeric_loss_workspace_bytes(op.inputs[0].num_elements());
  return cross_entropy_workspace_bytes(cross_entropy_shape_of(op), op.kind != OpKind::cross_entropy_backward,
                                       !attributes->class_weights.empty());
}

std::int64_t gradient_factor_workspace_bytes(const Op& op) {
  std::int64_t num_chunks = 0;
  for (const TensorType& gradient : op.inputs)
    if (gradient.dtype != DType::f64)
      num_chunks += gradient_factor_chunks(gradient.num_elements());  // not the loss scale
  return num_chunks * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t linear_cross_entropy_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  WorkspaceModel of_chunks = model;
  of_chunks.matrix_alignment = alignment_of_chunks(op);
  return loss_chunks_workspace_bytes(op, [&](const Op& step) { return compute_workspace_bytes(step, of_chunks); });
}

std::int64_t alignment_of_chunks(const Op& op) {
  constexpr std::int64_t vector_bytes = 16;
  const TensorType& x = op.inputs[0];
  const std::int64_t row_bytes = x.num_bytes() / x.shape[0];
  return std::gcd(vector_bytes, attributes_of<LinearCrossEntropyAttributes>(op).chunk_rows * row_bytes);
}

}  // namespace trainer::cuda
