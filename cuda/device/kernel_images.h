#pragma once

namespace trainer::cuda {

/// Loads every kernel of this module onto the current device. CUDA would load each when it first runs, which takes
/// memory that nobody planned, and time in the middle of a step. Throws DeviceError where the device cannot run one.
void load_kernels();

/// Of this module, on any device.
int num_kernels();

}  // namespace trainer::cuda
