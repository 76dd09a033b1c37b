#include "engine/cpu/kernels.h"

// Kernels that are being written: each line moves to its own file.

namespace trainer {

#define TRAINER_PENDING(name)                                               \
  std::unique_ptr<CpuKernel> make_##name##_kernel(const Op&, CpuContext&) { \
    throw InternalError("internal error: " #name " has no kernel yet");     \
  }
#undef TRAINER_PENDING

}  // namespace trainer
