#pragma once

#include "cuda/ops/cublaslt_call.h"

namespace trainer::cuda {

/// What cublasLtMatmul does with `call` by NVIDIA's documentation, on host memory, in double: column-major, with its
/// demands on leading dimensions and epilogues checked (InternalError). Only f32. It knows nothing of MatmulCall.
void run_host_cublaslt(const CublasLtCall& call, const CublasLtOperands& operands);

}  // namespace trainer::cuda
