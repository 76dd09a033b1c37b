#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// inputs: x of f32, f16 or bf16; outputs: y, the same numbers as `to`, rounded to nearest, ties to even (f32 that f16
/// cannot hold becomes infinite). Its gradient is a cast back. y may be stored over x where both are as wide.
Op cast_op(const TensorType& x, DType to);

}  // namespace trainer
