#pragma once

namespace trainer::cuda {

/// Loads every kernel of this module onto the current device. CUDA would load each when it first runs, which takes
/// memory that nobody planned, and time in the middle of a step. Throws DeviceError where the device cannot run one.
/// Settles kernels_start_early() (cuda/launch/early_start.h) and has_tensor_cores()
/// (cuda/launch/tensor_core_architecture.h): where all devices for which it was called can.
void load_kernels();

/// Of this module, on any device.
int num_kernels();

}  // namespace trainer::cuda
