#pragma once

#include <cstdint>
#include <optional>

#include "cuda/kernels/depthwise_conv2d.h"
#include "cuda/library/convolution.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

// Note [Depthwise convolutions]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Where each channel is convolved alone, memory bounds a convolution: 3×3 of bf16 is 9 multiply-adds for 4 bytes. cuDNN
// computes it by engines for grouped convolutions, whose tiles of matrix products are for groups of many channels; none
// for NHWC in 16 bits is known to come near the rate of the memory. So kernels of our own serve all of these that they
// can count (depthwise_conv2d_serves), forward with bias and ReLU, in any type: every tensor is read and written once.
// cuDNN is not asked about them, and their scratch is ours: partial sums of the weights' gradient. That they are faster
// is a prediction; tests/bench_kernels times both, by the cases depthwise_conv2d_* and convolution_*.depthwise*.

/// The convolution of single channels by which own kernels compute an op; nothing where the library does.
std::optional<DepthwiseShape> depthwise_shape_of(const Op& op);

ConvolutionDirection convolution_direction(const Op& op);

/// What a conv2d op asks of the library. A ReLU without a bias is left to a kernel behind it.
ConvolutionCall convolution_call(const Op& op, bool tf32);

/// The parts of a convolution's workspace, each at a multiple of 512 bytes, first the scratch of the library or of
/// depthwise kernels.
struct Conv2dWorkspace {
  std::int64_t bias_gradient = -1;  ///< offset of bias_gradient's partial sums; −1: none
  std::int64_t num_bytes = 0;
};

Conv2dWorkspace conv2d_workspace(const Op& op, std::int64_t convolution_bytes);

}  // namespace trainer::cuda
