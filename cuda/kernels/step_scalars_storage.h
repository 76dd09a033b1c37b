#pragma once

#include <cstdint>

#include "engine/device/step_scalars.h"

namespace trainer::cuda {

/// Where the current device keeps the step's numbers: a variable of the kernels' own image, so that it is there from
/// the start and takes no allocation. Null where CUDA fails, whose last error then says why.
StepScalars* step_scalars_storage();
/// The same for the count of fed steps (engine/device/step_feed.h).
std::int64_t* fed_steps_storage();

}  // namespace trainer::cuda
