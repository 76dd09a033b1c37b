#pragma once

#include <cstdint>

#include "engine/ops/cross_entropy.h"
#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Dice]
// ~~~~~~~~~~~
// The soft Dice loss of a batch, as MONAI's DiceLoss with batch=True, smooth_nr and smooth_dr both `smooth`, and its
// mean over the classes: with p and g the probability and the truth of class c at every place of all samples,
//
//   1 − (1/C) Σ_c (2 · Σ p·g + smooth) / (Σ p + Σ g + smooth)
//
// Of classes as targets p is the softmax over C logits (MONAI: softmax, to_onehot_y), or, of one logit, the sigmoid for
// class 1; of numbers as targets p is the sigmoid of each channel (MONAI: sigmoid). Ignored targets are left out of all
// sums. The sums are over the whole batch, so the gradient of a place needs them first: they are an op of its own. A
// step of several micro-batches has the mean of their losses, each with as many votes as it has samples.

/// Sums of a class: of p·g, of p and of g.
inline constexpr int num_dice_sums = 3;

struct DiceAttributes {
  double smooth = 1e-5;  ///< above 0: so a class that occurs nowhere costs nothing
  std::int32_t ignore_index = no_ignored_target;
  LossTerm term = {};
  friend bool operator==(const DiceAttributes&, const DiceAttributes&) = default;
};

/// inputs: logits f32 (N, …, C), targets i32 (N, …) or f32 (N, …, C); outputs: sums f64 (C, num_dice_sums).
/// Throws ShapeError.
Op dice_sums_op(const TensorType& logits, const TensorType& targets, const DiceAttributes& attributes);
/// inputs: logits, targets, the sums, loss statistics [added to: N times the loss, of weight N]; no outputs. Logits and
/// targets are there for the gradient alone.
Op dice_op(const Op& dice_sums);
/// inputs: logits, targets, the sums; outputs: dlogits, which may be stored over the logits; scaled by N ·
/// StepScalars::gradient_scale_of its term.
Op dice_backward_op(const Op& dice);

/// How a dice op reads its logits: rows of channels, each row with a class, or each channel with a number.
struct DiceShape {
  std::int64_t rows = 0, channels = 0, batch = 0;
  bool has_classes = true;  ///< targets are i32, one a row
  /// Of classes: whether probabilities are a softmax over the channels.
  bool is_softmax() const { return has_classes && channels > 1; }
};
DiceShape dice_shape_of(const Op& dice);

}  // namespace trainer
