#pragma once

namespace trainer::cuda {

/// The compute capability (90 for 9.0) from which on a kernel can wait for those in front of it.
inline constexpr int first_early_architecture = 90;

/// Whether a kernel may start before those in front of it have ended: where every kernel of the module is compiled to
/// wait for them. Defined in cuda/device/. See Note [Early start] in launch.h.
bool kernels_start_early();

}  // namespace trainer::cuda
