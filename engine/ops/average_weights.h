#pragma once

#include <span>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// average ← average + StepScalars::average_share · (weight − average) of many tensors at once, as torch.lerp: 1 copies
/// the weights, 0 leaves the averages as they are. inputs: for each tensor: weight, average [modified], both f32 and of
/// its shape; no outputs.
Op average_weights_op(std::span<const TensorType> weights);

}  // namespace trainer
