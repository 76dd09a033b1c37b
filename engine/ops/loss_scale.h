#pragma once

#include <array>
#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Loss scale]
// ~~~~~~~~~~~~~~~~~
// In fp16 the gradients of a loss would vanish below 6e-8, so the loss is scaled up before the backward pass and the
// gradients are scaled down again in f32, by the rules of PyTorch's GradScaler. The scale and its counters live on the
// device, because the next step is queued before the host has seen whether this one overflowed:
//
//   scale_gradient       dprediction · scale, then everything of the backward pass is scaled
//   gradient_factor      norm of the unscaled gradients, 1 / scale · clipping, whether all of them are finite
//   sgd_ or adam_update  multiplies by the factor; changes nothing where a gradient is not finite, and counts only
//                        updates that were made: update − skipped
//   update_loss_scale    scale · backoff after such a step; scale · growth after `interval` good ones in a row
//
// bf16 has f32's range and needs none of it.

/// Elements of the f64 vector that holds the scale.
enum LossScaleValue : int {
  loss_scale_factor,   ///< what the loss is multiplied by
  loss_scale_tracker,  ///< good steps since the scale last changed
  loss_scale_skipped,  ///< updates that were skipped since the start of training
  num_loss_scale_values,
};

using LossScaleState = std::array<double, num_loss_scale_values>;

struct LossScaleAttributes {
  double growth = 2;
  double backoff = 0.5;
  std::int64_t interval = 2000;
  friend bool operator==(const LossScaleAttributes&, const LossScaleAttributes&) = default;
};

/// inputs: x f32, loss scale f64 (num_loss_scale_values); outputs: y = x · scale, which may be stored over x.
Op scale_gradient_op(const TensorType& x);

/// inputs: loss statistics f64, gradient factor f32 (num_gradient_factors), loss scale [modified]; no outputs.
/// A step counts as overflowed where a gradient or its loss_sum is not finite.
Op update_loss_scale_op(const LossScaleAttributes& attributes);

}  // namespace trainer
