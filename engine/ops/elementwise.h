#pragma once

#include <array>

#include "engine/ops/op_definition.h"

namespace trainer {

/// In-place rules of ops that read each element once before they write it.
inline constexpr std::array<InPlace, 1> in_place_over_first = {{{.output = 0, .input = 0}}};
inline constexpr std::array<InPlace, 2> in_place_over_either = {{{.output = 0, .input = 0}, {.output = 0, .input = 1}}};

/// a · b · c for FLOPs, at most 2^53: shapes that no machine computes must not overflow the sums over layers.
std::int64_t flops_product(std::int64_t a, std::int64_t b, std::int64_t c);

/// FLOPs of ops that spend `per_element` operations on each element of their first input.
template <std::int64_t per_element>
std::int64_t flops_per_input_element(const Op& op) {
  return flops_product(per_element, op.inputs[0].num_elements(), 1);
}

/// Throws ShapeError unless x is an image batch (N, H, W, C).
void require_image(const TensorType& x, const char* layer);

/// Losses over all numbers of any shape: mse, bce_with_logits and smooth_l1, see their headers; `loss` is what messages
/// call it. Throws ShapeError.
Op numeric_loss_op(OpKind kind, std::string_view loss, const TensorType& prediction, const TensorType& targets,
                   const LossTerm& term);
Op numeric_loss_backward_op(OpKind kind, const Op& loss);

}  // namespace trainer
