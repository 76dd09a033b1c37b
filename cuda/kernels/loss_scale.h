#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/ops/loss_scale.h"

namespace trainer::cuda {

// Note [Loss scale] in engine/ops/loss_scale.h. `state`: num_loss_scale_values in device memory.

/// y = x · scale, f32; y may be x. Bytes: 8 an element.
void scale_gradient(const float* x, const double* state, float* y, std::int64_t count, Stream stream);

/// The scale behind an update; `statistics` and `factor` say whether it was made. One thread.
void update_loss_scale(const double* statistics, const float* factor, const LossScaleAttributes& attributes,
                       double* state, Stream stream);

}  // namespace trainer::cuda
