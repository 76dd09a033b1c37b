#include "cuda/device/kernel_images.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "cuda/device/cuda_call.h"
#include "cuda/launch/early_start.h"
#include "cuda/launch/tensor_core_architecture.h"

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

namespace {

constexpr int every_architecture = 1000000;
std::atomic<int> least_architecture = every_architecture;

/// Whether every kernel runs as it was written for `architecture`.
bool runs_from(int architecture) {
  const int least = least_architecture.load(std::memory_order_relaxed);
  return least >= architecture && least < every_architecture;
}

}  // namespace

void load_kernels() {
  int least = least_architecture;
  for (const void* kernel : kernels()) {
    cudaFuncAttributes attributes{};
    require_cuda(cudaFuncGetAttributes(&attributes, kernel), "load the kernels");
    // What the source was compiled as, whatever the driver made of it; and what it runs as.
    least = std::min({least, attributes.ptxVersion, attributes.binaryVersion});
  }
  least_architecture = least;
}

bool kernels_start_early() { return runs_from(first_early_architecture); }
bool has_tensor_cores() { return runs_from(first_tensor_core_architecture); }

int num_kernels() { return static_cast<int>(kernels().size()); }

}  // namespace trainer::cuda
