#include "cuda/device/kernel_images.h"

#include <cuda_runtime.h>

#include <vector>

#include "cuda/device/cuda_call.h"

// Note [Every kernel]
// ~~~~~~~~~~~~~~~~~~~
// CUDA has no call that lists a program's kernels, but the code that nvcc generates names each of them to the runtime,
// by __cudaRegisterFunction, before main() or when the module is loaded. The linker lets those calls pass through here
// (--wrap in cuda/CMakeLists.txt).

// NOLINTBEGIN(readability-identifier-naming): the linker's names
extern "C" void __real___cudaRegisterFunction(void** image, const char* kernel, char* device_name, const char* name,
                                              int thread_limit, uint3* thread_id, uint3* block_id, dim3* block,
                                              dim3* grid, int* warp_size);
extern "C" void __wrap___cudaRegisterFunction(void** image, const char* kernel, char* device_name, const char* name,
                                              int thread_limit, uint3* thread_id, uint3* block_id, dim3* block,
                                              dim3* grid, int* warp_size);

namespace {

std::vector<const void*>& kernels() {
  static std::vector<const void*> list;
  return list;
}

}  // namespace

extern "C" void __wrap___cudaRegisterFunction(void** image, const char* kernel, char* device_name, const char* name,
                                              int thread_limit, uint3* thread_id, uint3* block_id, dim3* block,
                                              dim3* grid, int* warp_size) {
  kernels().push_back(kernel);
  __real___cudaRegisterFunction(image, kernel, device_name, name, thread_limit, thread_id, block_id, block, grid,
                                warp_size);
}
// NOLINTEND(readability-identifier-naming)

namespace trainer::cuda {

void load_kernels() {
  for (const void* kernel : kernels()) {
    cudaFuncAttributes attributes{};
    require_cuda(cudaFuncGetAttributes(&attributes, kernel), "load the kernels");
  }
}

int num_kernels() { return static_cast<int>(kernels().size()); }

}  // namespace trainer::cuda
