#pragma once

#include <cstdint>

#include "cuda/library/convolution.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// What a conv2d op asks of the library. A ReLU without a bias is left to a kernel behind it.
ConvolutionCall convolution_call(const Op& op, bool tf32);

/// The parts of a convolution's workspace, each at a multiple of 512 bytes, the library's scratch first.
struct Conv2dWorkspace {
  std::int64_t bias_gradient = -1;  ///< offset of bias_gradient's partial sums; −1: none
  std::int64_t num_bytes = 0;
};

Conv2dWorkspace conv2d_workspace(const Op& op, std::int64_t library_bytes);

}  // namespace trainer::cuda
