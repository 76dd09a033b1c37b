#pragma once

#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Activations in products]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A product can apply ReLU or GELU to its result, and the gradient of a product's input can go back through the
// activation that made that input. The second needs something kept by the first: for ReLU a bit for each positive
// output, (…, relu_mask_row_bytes(out)) of u8, for GELU the sums it was computed from, (…, out). The gradient of ReLU
// alone reads the output itself and needs no mask. Only engine/program/linear_fusion.cpp makes ops that keep something.

/// The activation that made the input of a linear op, where linear_backward_input goes back through it too.
enum class InputActivation : std::uint8_t { none, relu, gelu };

/// What a device gains from at linear layers; engine/program/linear_fusion.h does it.
struct LinearFusions {
  bool relu_gradients = false;  ///< masks kept by the forward op, and gradients that go back through ReLU
  bool gelu = false;            ///< the same for GELU's tanh approximation
};

/// y = x Wᵀ + b, then ReLU or GELU where a fusion pass says so.
struct LinearAttributes {
  std::int64_t out = 0;
  bool bias = true;
  bool relu = false;   ///< forward only; its gradient is an activation_backward on the output
  bool gelu = false;   ///< forward only: by its tanh approximation; not beside relu, and only with `keeps`
  bool keeps = false;  ///< forward only: a second output, see Note [Activations in products]
  bool adds = false;   ///< linear_backward_weight only: to what is there
  InputActivation through = InputActivation::none;  ///< linear_backward_input only
  friend bool operator==(const LinearAttributes&, const LinearAttributes&) = default;
};

/// Bytes of a row of `columns` bits: bit j is bit j % 8 of byte j / 8; rows are padded to whole 128 bits, what the
/// padding holds is open.
constexpr std::int64_t relu_mask_row_bytes(std::int64_t columns) { return (columns + 127) / 128 * 16; }

// Operands are of one type, f32 or 16 bit; beside 16-bit ones y with b, and dW with db, may be f32.

/// inputs: x (…, in), W (out, in)[, b (out)]; outputs: y (…, out)[, what is kept]. x has rank 2 or 3.
/// Throws ShapeError for images (rank 4): flatten comes first.
Op linear_op(const TensorType& x, const LinearAttributes& attributes);
/// inputs: dy (…, out), W (out, in); outputs: dx (…, in).
Op linear_backward_input_op(const Op& linear);
/// Where x is the first output of `before`, a linear op that keeps what its activation's gradient needs.
/// inputs: dy (…, out), W (out, in), what `before` kept; outputs: the gradient of the sums in `before` (…, in).
/// At a sum of exactly 0 under ReLU a device may take any slope from 0 to 1; the CPU's is 0.
Op linear_backward_input_op(const Op& linear, const Op& before);
/// inputs: dy (…, out), x (…, in); outputs: dW (out, in)[, db (out)].
Op linear_backward_weight_op(const Op& linear);
/// The same, added up over several calls.
/// inputs: dy (…, out), x (…, in), dW (out, in) [added to][, db (out) [added to]]; no outputs.
Op linear_add_backward_weight_op(const Op& linear);

}  // namespace trainer
