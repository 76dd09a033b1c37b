#pragma once

#include <memory>

#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// `call` without its epilogue: what the library must compute for make_unfused_matmul.
MatmulCall without_epilogue(const MatmulCall& call);

/// `call` as `product`, which computes without_epilogue(call), and a kernel behind it for the epilogue. The same
/// result and workspace, and one pass over C more. Taken when a product is prepared and the library does not fuse its
/// epilogue: where cublaslt_supports says so, or where it finds no algorithm for it on the GPU at hand; or where that
/// was timed to be faster. The product is given the scratch where it `takes_workspace`.
std::unique_ptr<Matmul> make_unfused_matmul(const MatmulCall& call, std::unique_ptr<Matmul> product,
                                            bool takes_workspace);
/// With the scratch of matmul_workspace_bytes.
std::unique_ptr<Matmul> make_unfused_matmul(const MatmulCall& call, std::unique_ptr<Matmul> product);

}  // namespace trainer::cuda
