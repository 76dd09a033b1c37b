#pragma once

#include <cstdint>

#include "engine/config/layer_spec.h"
#include "engine/ops/conv2d.h"

namespace trainer {

// Note [Transposed convolutions]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A transposed convolution from x to y is the gradient with respect to its input of a convolution from y to x, given x
// as the gradient of what that made (Dumoulin and Visin, 2016). So its ops carry the attributes of that convolution,
// whose `out` are the channels of x, and devices compute them by its kernels: the forward op as conv2d_backward_input,
// with the bias of y added behind it; the gradient of x is a conv2d of dy; that of the weights conv2d_backward_weight
// with x and dy in each other's place. The weights of the two are the same tensor, (channels of x, kh, kw, out/groups),
// which PyTorch keeps as (channels of x, out/groups, kh, kw): the file order of every convolution.

/// As PyTorch's ConvTranspose2d.
struct ConvTranspose2dOptions {
  std::int64_t out = 0;
  Pair kernel{1, 1}, stride{1, 1}, padding{0, 0};
  Pair output_padding{0, 0};  ///< rows and columns that y has more at its end; each below the stride
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = true;
  std::int64_t workspace_limit = Conv2dAttributes{}.workspace_limit;
};

/// inputs: x (N, H, W, C), W (C, kh, kw, out/groups)[, b (out)]; outputs: y (N, H', W', out) with
/// H' = (H − 1)·stride − 2·padding + dilation·(kernel − 1) + output_padding + 1. In 16 bits a device may round the sums
/// before it adds b, as PyTorch does on a GPU. Its attributes are Conv2dAttributes: Note [Transposed convolutions].
/// Throws ShapeError.
Op conv_transpose2d_op(const TensorType& x, const ConvTranspose2dOptions& options);
/// The convolution that computes the gradient of x: inputs: dy, W; outputs: dx.
Op conv_transpose2d_backward_input_op(const Op& conv_transpose2d);
/// inputs: dy, x; outputs: dW[, db].
Op conv_transpose2d_backward_weight_op(const Op& conv_transpose2d);

/// The op on the same operands but the bias and its gradient that devices compute a transposed convolution by:
/// conv2d_backward_input, or conv2d_backward_weight, whose inputs are the other way round: x, dy.
Op convolution_of_transposed(const Op& op);

}  // namespace trainer
