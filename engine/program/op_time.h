#pragma once

#include "engine/ops/op.h"

namespace trainer {

/// A rough time of one run of `op`, for choosing what to compute again: FLOPs or bytes moved, whichever takes longer on
/// a device that does `flops_per_byte` operations in the time it moves a byte, in units of one FLOP.
double estimated_time(const Op& op);

/// Between a CPU's and a GPU's in f32, and low for products in 16 bit.
inline constexpr double flops_per_byte = 16;

}  // namespace trainer
