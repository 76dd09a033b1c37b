#include "cuda/kernels/step_scalars_storage.h"

#include "cuda/launch/launch.h"

namespace trainer::cuda {

namespace {

__device__ StepScalars step_scalars;
__device__ std::int64_t num_fed_steps;

/// Where the variable lies for kernels.
template <typename T>
T* storage_of(T& variable) {
#if defined(__CUDACC__)
  void* address = nullptr;
  return cudaGetSymbolAddress(&address, variable) == cudaSuccess ? static_cast<T*>(address) : nullptr;
#else
  return &variable;
#endif
}

}  // namespace

StepScalars* step_scalars_storage() { return storage_of(step_scalars); }
std::int64_t* fed_steps_storage() { return storage_of(num_fed_steps); }

}  // namespace trainer::cuda
