#pragma once

#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// What `call`'s epilogue does, over operands.c which holds the product already: for products whose epilogue the
/// library does not fuse. One launch. Bytes: C read and written, aux once; FLOPs: up to some 20 an element. The bias
/// gradient instead is bias_gradient of cuda/kernels/bias_gradient.h over A, in the call's workspace.
void matmul_epilogue(const MatmulCall& call, const MatmulOperands& operands, Stream stream);

}  // namespace trainer::cuda
