#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"

namespace trainer::cuda {

struct AveragedTensor {
  const float* weight = nullptr;
  float* average = nullptr;  ///< modified
  std::int64_t count = 0;
};

/// The formula of engine/ops/average_weights.h for all tensors; `scalars` in device memory. One launch for up to 640
/// tensors. Bytes: 12 an element, none where the share is 0. FLOPs: 3 an element.
void average_weights(std::span<const AveragedTensor> tensors, const StepScalars* scalars, Stream stream);

}  // namespace trainer::cuda
