#pragma once

#include <cstdint>
#include <optional>

#include "engine/ops/class_parts.h"
#include "engine/ops/cross_entropy.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Chunked loss]
// ~~~~~~~~~~~~~~~~~~~
// The logits of a classifier over many classes are often the largest tensor of a step, and only the loss reads them.
// These ops are the last linear layer and the softmax cross-entropy behind it, for a few rows (samples, or positions of
// them) at a time: the logits of one chunk lie in the op's workspace, become their own gradient there, and are
// multiplied into the gradients of the layer before the next chunk is begun. engine/program/chunked_loss.h puts them
// in. Where ranks share the classes (Note [Losses of cut classes] in class_parts.h), they add up what they find of a
// chunk's rows before each computes the gradient of its own logits: the op is then an exchange, too.

struct LinearCrossEntropyAttributes {
  CrossEntropyAttributes loss;
  bool bias = true;
  std::int64_t chunk_rows = 1;  ///< of x; the last chunk may have fewer
  bool input_gradient = true;   ///< dx is wanted
  bool counts = false;          ///< without a gradient: a confusion matrix is counted too
  bool scaled = false;          ///< gradients are multiplied by the loss scale too, see Note [Loss scale]
  /// The classes whose rows of W and b this rank has, and their loss, in place of `loss`: it is not mixed, and `counts`
  /// is not set.
  std::optional<ClassPartAttributes> part{};
  friend bool operator==(const LinearCrossEntropyAttributes&, const LinearCrossEntropyAttributes&) = default;
};

/// inputs: x (N, …, in), W (classes, in)[, b (classes)], targets i32 (N, …), loss statistics f64 [added to][, mixed
/// samples where loss.mixed][, counts as confusion_matrix's (added to) where wanted]; no outputs. x, W and b of one
/// type, f32 or 16 bit; logits, softmax and loss in f32.
Op linear_cross_entropy_op(const TensorType& x, const TensorType& weight, const TensorType& targets,
                           const LinearCrossEntropyAttributes& attributes);
/// inputs: x, W[, b], targets, loss statistics [added to][, mixed samples][, loss scale where scaled]; outputs: dW[,
/// db] of `gradient_type`, f32 or that of W[, dx as x], scaled by StepScalars::gradient_scale. Beside 16-bit operands
/// the gradient of the logits is narrowed to 16 bit before it is multiplied. Sums over chunks are made in f32.
Op linear_cross_entropy_with_gradient_op(const TensorType& x, const TensorType& weight, const TensorType& targets,
                                         const LinearCrossEntropyAttributes& attributes, DType gradient_type);

/// Of either op: each row of x has one target.
std::int64_t num_rows_of_linear_cross_entropy(const Op& op);
/// The ranks that run either op together; null: this one alone does.
const RankGroup* ranks_of_linear_cross_entropy(const Op& op);

}  // namespace trainer
