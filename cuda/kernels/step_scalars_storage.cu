#include "cuda/kernels/step_scalars_storage.h"

#include "cuda/launch/launch.h"

namespace trainer::cuda {

namespace {

__device__ StepScalars step_scalars;

}  // namespace

StepScalars* step_scalars_storage() {
#if defined(__CUDACC__)
  void* address = nullptr;
  return cudaGetSymbolAddress(&address, step_scalars) == cudaSuccess ? static_cast<StepScalars*>(address) : nullptr;
#else
  return &step_scalars;
#endif
}

}  // namespace trainer::cuda
