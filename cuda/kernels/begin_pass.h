#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"

namespace trainer::cuda {

/// Bytes to copy within device memory; of any alignment, not overlapping.
struct StagedCopy {
  void* destination = nullptr;
  const void* source = nullptr;
  std::int64_t num_bytes = 0;
};

/// *destination = scalars, as they are at the call, and two copies, either of which may be of no bytes: what a pass
/// begins with, in one kernel. Bytes: those copied, twice.
void begin_pass(const StepScalars& scalars, StepScalars* destination, const StagedCopy& first, const StagedCopy& second,
                Stream stream);

}  // namespace trainer::cuda
