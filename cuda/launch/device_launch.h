#pragma once
// The nvcc side of Notes [Kernels on the host] and [Early start] in cuda/launch/launch.h.

#include <cuda_runtime.h>

#include <concepts>
#include <type_traits>

#include "cuda/launch/early_start.h"
#include "cuda/launch/launch_failure.h"

#define TRAINER_SHARED(T, name, count) __shared__ T name[count]
#define TRAINER_UNROLL _Pragma("unroll")

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
  static_assert(first_early_architecture == 90);  // which the preprocessor does not know
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// A pack as CUDA's vector types.
template <int num_bytes>
struct PackWord {
  using type = uint4;
};
template <>
struct PackWord<8> {
  using type = uint2;
};
template <>
struct PackWord<4> {
  using type = unsigned;
};
template <>
struct PackWord<2> {
  using type = unsigned short;
};
template <>
struct PackWord<1> {
  using type = unsigned char;
};

template <typename T, int n>
struct PackWords {
  static constexpr int num_bytes = n * static_cast<int>(sizeof(T));
  static_assert(num_bytes <= 16 ? (num_bytes & (num_bytes - 1)) == 0 : num_bytes % 16 == 0);
  using Word = typename PackWord<(num_bytes < 16 ? num_bytes : 16)>::type;
  static constexpr int num_words = num_bytes / static_cast<int>(sizeof(Word));
  Word words[num_words];
};

template <int n, typename T>
__device__ __forceinline__ Pack<T, n> load_pack(const T* from) {
  using Words = PackWords<T, n>;
  Words raw;
#pragma unroll
  for (int i = 0; i < Words::num_words; ++i) raw.words[i] = reinterpret_cast<const typename Words::Word*>(from)[i];
  return __builtin_bit_cast(Pack<T, n>, raw);
}
template <int n, typename T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, n>& pack) {
  using Words = PackWords<T, n>;
  const Words raw = __builtin_bit_cast(Words, pack);
#pragma unroll
  for (int i = 0; i < Words::num_words; ++i) __stwb(reinterpret_cast<typename Words::Word*>(to) + i, raw.words[i]);
}

template <int n, typename T>
__device__ __forceinline__ void store_shared_pack(T* to, const Pack<T, n>& pack) {
  using Words = PackWords<T, n>;
  const Words raw = __builtin_bit_cast(Words, pack);
#pragma unroll
  for (int i = 0; i < Words::num_words; ++i) reinterpret_cast<typename Words::Word*>(to)[i] = raw.words[i];
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
