#include "cuda/ops/kernels.h"

// Kernels that are being written: each line moves to its own file.

namespace trainer::cuda {

#define TRAINER_PENDING(name)                                             \
  std::unique_ptr<Kernel> make_##name##_kernel(const Op&, CudaContext&) { \
    throw InternalError("internal error: " #name " has no kernel yet");   \
  }
#undef TRAINER_PENDING

}  // namespace trainer::cuda
