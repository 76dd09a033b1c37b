#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/ops/gradient_factor.h"
#include "engine/ops/loss_scale.h"
#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// In which types an update finds what it works on, the same for all parameters of one call. Arithmetic is f32.
struct UpdateFormat {
  bool factored = false;  ///< gradients are multiplied by gradient_factor's output, the second input
  /// The third input is the loss scale, see Note [Loss scale]: Adam's bias correction and the start of SGD's momentum
  /// count update − skipped. Needs `factored`, which holds the reciprocal of the scale.
  bool scaled = false;
  DType gradients = DType::f32;  ///< f32, f16 or bf16
  /// Behind each gradient stands a copy of the weight in f16 or bf16, which the update writes anew (rounded to
  /// nearest).
  std::optional<DType> copies = {};
  /// One for each parameter: its weight is bf16, without an f32 master, and rounded up or down at random, so that the
  /// mean is kept. Element i, as on the device, of update u is rounded by bits of Philox (seed, stream, u), see
  /// rounding_bits in engine/stochastic_rounding.h. Empty: weights are f32.
  std::vector<std::uint32_t> random_streams = {};
  /// Where weights are parts (Note [Parts of tensors] in rank_parts.h), for each of `random_streams` the element that
  /// its weight begins with, a multiple of rounding_elements; empty: 0.
  std::vector<std::int64_t> first_elements = {};
  friend bool operator==(const UpdateFormat&, const UpdateFormat&) = default;
};

/// How fast an update goes and from where it counts, the same for all parameters of one call.
struct UpdatePace {
  double rate_factor = 1;           ///< StepScalars::learning_rate is multiplied by it
  std::int64_t updates_before = 0;  ///< that were made before the optimizer's state began
  bool cycles_momentum = false;     ///< StepScalars::momentum is in place of momentum, or of beta1
  friend bool operator==(const UpdatePace&, const UpdatePace&) = default;
};

/// One update of many parameters at once. The learning rate and the number of updates so far come with StepScalars.
/// Formulas and their order are torch.optim's (SGD with dampening 0; Adam: Kingma and Ba, 2015; AdamW: Loshchilov and
/// Hutter, 2019).
struct SgdUpdateAttributes {
  double momentum = 0;  ///< the first update starts the momentum at the gradient, as PyTorch's
  bool nesterov = false;
  double weight_decay = 0;
  UpdateFormat format = {};
  UpdatePace pace = {};
  friend bool operator==(const SgdUpdateAttributes&, const SgdUpdateAttributes&) = default;
};
struct AdamUpdateAttributes {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW
  bool eight_bit = false;  ///< moments as in Note [8-bit moments]
  UpdateFormat format = {};
  UpdatePace pace = {};  ///< bias corrections are by beta1 as it is in the update, as torch's
  friend bool operator==(const AdamUpdateAttributes&, const AdamUpdateAttributes&) = default;
};

/// Where the loss_sum of the loss statistics is not finite, or under a loss scale gradients_finite is 0, an update
/// changes nothing: a device that runs ahead of the host meets the update of a failed step before the host has read its
/// loss. Else a weight that it makes not finite, before it is rounded to 16 bits, makes num_counted NaN (without a
/// scale a gradient that is not finite makes its weight so): Note [Lost weights] in loss_statistics.h.
///
/// inputs: loss statistics f64 (num_loss_statistics) [num_counted modified], [gradient factor f32
/// (num_gradient_factors),] [loss scale f64 (num_loss_scale_values),] then for each parameter: weight [modified],
/// gradient, [copy [modified]], [momentum f32 [modified] where momentum > 0]; no outputs. `weights` says the weights'
/// types.
Op sgd_update_op(std::span<const TensorType> weights, const SgdUpdateAttributes& attributes);
/// inputs: as of sgd_update_op, with the first and the second moment [modified] in the place of the momentum: f32, or
/// moment_type where eight_bit; no outputs.
Op adam_update_op(std::span<const TensorType> weights, const AdamUpdateAttributes& attributes);

/// The input that holds the first parameter's weight, and from one weight to the next.
int first_parameter_operand(const UpdateFormat& format);
int operands_of_a_parameter(const SgdUpdateAttributes& attributes);
int operands_of_a_parameter(const AdamUpdateAttributes& attributes);

// Note [8-bit moments]
// ~~~~~~~~~~~~~~~~~~~~
// A moment of `count` elements is one u8 tensor: a byte for each element, in the weight's order on the device, filled
// up with zeros to a multiple of 4, then an f32 for each moment_block_elements of them, the largest magnitude in that
// block, M. 1.02 bytes an element.
//
// Codes are spaced by a root, so that small numbers beside large ones keep their leading digits:
//   first moment   c from −127 to 127 in two's complement: sign(c) · (|c| / 127)² · M
//   second moment  c from 0 to 255: (c / 255)⁴ · M, and what is above zero never becomes c = 0, so that the update's
//                  denominator is never lost beside a numerator that is left
// Rounding is to the nearest |c|. So with m = s²·M, |error| ≤ (s / 127 + 1/254²) · M: 0.8 % of the largest, 8 % of one
// a hundredth as large, and what is below 1/254² of M becomes 0. With v = s⁴·M, |error| / v ≤ about 1 / (127.5 s): 0.8
// % of the largest, 8 % of one a ten-thousandth as large; what the update divides by, √v, errs by half of that. Zero
// bytes are zero moments. A moment that is not finite makes its whole block so: it is not hidden.

inline constexpr std::int64_t moment_block_elements = 256;

/// Bytes of the codes, behind which the f32 of the blocks begin.
constexpr std::int64_t moment_code_bytes(std::int64_t count) { return (count + 3) / 4 * 4; }
constexpr std::int64_t num_moment_blocks(std::int64_t count) {
  return (count + moment_block_elements - 1) / moment_block_elements;
}
/// The type of either 8-bit moment of a parameter of `count` elements.
TensorType moment_type(std::int64_t count);

}  // namespace trainer
