#pragma once
// The nvcc side of Notes [Kernels on the host] and [Early start] in cuda/launch/launch.h.

#include <cuda_runtime.h>

#include <concepts>
#include <type_traits>

#include "cuda/launch/early_start.h"
#include "cuda/launch/launch_failure.h"

#define TRAINER_SHARED(T, name, count) __shared__ T name[count]

namespace trainer::cuda {

inline constexpr unsigned full_warp = 0xffffffffu;

template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(full_warp, value, mask);
}
template <typename T>
__device__ __forceinline__ T shuffle_down(T value, int delta) {
  return __shfl_down_sync(full_warp, value, static_cast<unsigned>(delta));
}
template <typename T>
__device__ __forceinline__ T shuffle(T value, int lane) {
  return __shfl_sync(full_warp, value, lane);
}

template <std::integral T>
__device__ __forceinline__ T atomic_add(T* address, std::type_identity_t<T> value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  // Two's complement: the unsigned addition has the same bits.
  using Word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
  return static_cast<T>(atomicAdd(reinterpret_cast<Word*>(address), static_cast<Word>(value)));
}

__device__ __forceinline__ void thread_fence() { __threadfence(); }

__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= first_early_architecture * 10
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Throws DeviceError where the kernel cannot be started, or where an earlier one has failed.
template <typename... Parameters>
void launch(void (*kernel)(Parameters...), Dim3 grid, Dim3 block, Stream stream,
            std::type_identity_t<Parameters>... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y, grid.z);
  config.blockDim = dim3(block.x, block.y, block.z);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = kernels_start_early() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) throw_launch_failure(error, grid, block);
}

}  // namespace trainer::cuda
