#pragma once

#include <memory>

#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// The product that `call` describes, on host memory, by the obvious loops in double. run() throws InternalError where
/// an operand is missing or given in vain, and writes over all of the workspace.
std::unique_ptr<Matmul> make_host_matmul(const MatmulCall& call);

}  // namespace trainer::cuda
