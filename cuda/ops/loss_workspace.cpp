#include <array>
#include <numeric>

#include "cuda/kernels/class_parts.h"
#include "cuda/kernels/cross_entropy.h"
#include "cuda/kernels/dice.h"
#include "cuda/kernels/gradient_factor.h"
#include "cuda/kernels/numeric_loss.h"
#include "cuda/ops/cross_entropy_shape_of.h"
#include "cuda/ops/kernels.h"
#include "engine/device/loss_chunk_runner.h"

namespace trainer::cuda {

namespace {

constexpr std::array cross_entropy_kinds = {OpKind::cross_entropy, OpKind::cross_entropy_backward,
                                            OpKind::cross_entropy_with_gradient};

std::int64_t cross_entropy_workspace_bytes_of(const Op& op, const WorkspaceModel&) {
  return cross_entropy_workspace_bytes(cross_entropy_shape_of(op), op.kind != OpKind::cross_entropy_backward,
                                       !attributes_of<CrossEntropyAttributes>(op).class_weights.empty());
}

constexpr std::array numeric_loss_kinds = {OpKind::mse, OpKind::bce_with_logits, OpKind::smooth_l1,
                                           OpKind::error_statistics};

std::int64_t numeric_loss_workspace_bytes_of(const Op& op, const WorkspaceModel&) {
  return numeric_loss_workspace_bytes(op.inputs[0].num_elements());
}

constexpr std::array dice_kinds = {OpKind::dice_sums, OpKind::dice_backward};

std::int64_t dice_workspace_bytes(const Op& op, const WorkspaceModel&) {
  const DiceShape shape = dice_shape_of(op);
  return op.kind == OpKind::dice_sums ? dice_sums_workspace_bytes(shape.rows, shape.channels, shape.is_softmax())
                                      : dice_backward_workspace_bytes(shape.channels);
}

constexpr std::array class_part_kinds = {OpKind::cross_entropy_of_parts};

std::int64_t class_part_workspace_bytes_of(const Op& op, const WorkspaceModel&) {
  return class_part_workspace_bytes(op.inputs[1].num_elements());
}

constexpr std::array gradient_factor_kinds = {OpKind::gradient_squares, OpKind::gradient_factor};

std::int64_t gradient_factor_workspace_bytes(const Op& op, const WorkspaceModel&) {
  std::int64_t num_chunks = 0;
  for (const TensorType& gradient : op.inputs)
    if (gradient.dtype != DType::f64 && gradient.dtype != DType::i64)  // not the loss scale, nor given sums
      num_chunks += gradient_factor_chunks(gradient.num_elements());
  if (op.kind == OpKind::gradient_squares && attributes_of<GradientSquaresAttributes>(op).exact)
    return exact_squares_workspace_bytes(num_chunks);
  return num_chunks * static_cast<std::int64_t>(sizeof(double));
}

constexpr std::array linear_cross_entropy_kinds = {OpKind::linear_cross_entropy,
                                                   OpKind::linear_cross_entropy_with_gradient};

std::int64_t linear_cross_entropy_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  WorkspaceModel of_chunks = model;
  of_chunks.matrix_alignment = alignment_of_chunks(op);
  return loss_chunks_workspace_bytes(op, [&](const Op& step) { return compute_workspace_bytes(step, of_chunks); });
}

}  // namespace

const ScratchRule cross_entropy_scratch = {cross_entropy_kinds, cross_entropy_workspace_bytes_of};
const ScratchRule numeric_loss_scratch = {numeric_loss_kinds, numeric_loss_workspace_bytes_of};
const ScratchRule dice_scratch = {dice_kinds, dice_workspace_bytes};
const ScratchRule class_part_scratch = {class_part_kinds, class_part_workspace_bytes_of};
const ScratchRule gradient_factor_scratch = {gradient_factor_kinds, gradient_factor_workspace_bytes};
const ScratchRule linear_cross_entropy_scratch = {linear_cross_entropy_kinds, linear_cross_entropy_workspace_bytes};

std::int64_t alignment_of_chunks(const Op& op) {
  constexpr std::int64_t vector_bytes = 16;
  const TensorType& x = op.inputs[0];
  const std::int64_t row_bytes = x.num_bytes() / num_rows_of_linear_cross_entropy(op);
  return std::gcd(vector_bytes, attributes_of<LinearCrossEntropyAttributes>(op).chunk_rows * row_bytes);
}

}  // namespace trainer::cuda
