#pragma once

namespace trainer::cuda {

/// The compute capability (80 for 8.0) from which on Note [Products of a warp] in tensor_cores.h holds.
inline constexpr int first_tensor_core_architecture = 80;

/// Whether kernels with products of warps run on every device in use. Defined in cuda/device/; on the host they do.
bool has_tensor_cores();

}  // namespace trainer::cuda
