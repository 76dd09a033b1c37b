#pragma once

#include "cuda/launch/dim3.h"

namespace trainer::cuda {

/// Throws DeviceError for `error`, a cudaError_t that was found when a kernel had been started: it may be an earlier
/// kernel's. Defined in cuda/device/, so that kernels say what to do as all of the module does.
[[noreturn]] void throw_launch_failure(int error, Dim3 grid, Dim3 block);

}  // namespace trainer::cuda
