#pragma once

#include <memory>

#include "engine/cpu/kernels.h"

namespace trainer {

// Note [Gradients of depthwise weights]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// oneDNN has kernels for convolutions of single channels in every direction, but for the weights' gradient only of 3×3
// and the like. What it takes for 5×5 treats each channel as a group of one: measured on Zen 4, one thread, 8 images of
// 28×28×96 take 4.6 ms, and the kernel here 0.5 ms, near what the other directions take (0.4 ms). For 3×3 the two are
// alike (0.8 to 1.1 times), so there oneDNN's stays.

/// Whether `op` is a conv2d_backward_weight in f32 with one output channel for each channel.
bool is_depthwise_weight_gradient(const Op& op);

/// The kernel of such an op. It sums parts of the rows of dy, as many for any number of threads, in f32 and those in
/// f64.
std::unique_ptr<CpuKernel> make_depthwise_weights_kernel(const Op& op, const CpuContext& context);
std::int64_t depthwise_weights_workspace_bytes(const Op& op);

}  // namespace trainer
