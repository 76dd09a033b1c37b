#pragma once

#include <span>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Many tensors become 0. inputs: the tensors, of one of f32, f16, bf16, f64 and i64 [modified]; no outputs.
Op fill_zero_op(std::span<const TensorType> tensors);

}  // namespace trainer
