#pragma once
// The nvcc side of Note [Products of a warp] in cuda/launch/tensor_cores.h. What is volatile stays where it stands
// between barriers.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TRAINER_TENSOR_CORES(...) __trap()
#define TRAINER_CONVERSION(...) __trap()
#else
#define TRAINER_TENSOR_CORES(...) asm volatile(__VA_ARGS__)
#define TRAINER_CONVERSION(...) asm(__VA_ARGS__)
#endif

namespace trainer::cuda {

static_assert(first_tensor_core_architecture == 80);  // which the preprocessor does not know

template <typename T>
inline constexpr bool is_bf16 = std::is_same_v<T, __nv_bfloat16>;

__device__ __forceinline__ unsigned shared_address(const void* generic) {
  return static_cast<unsigned>(__cvta_generic_to_shared(generic));
}

template <int n>
__device__ __forceinline__ void load_fragments(Fragment (&to)[n], const void* const (&rows)[n]) {
  TRAINER_UNROLL
  for (int i = 0; i < n; ++i) {
    std::uint32_t(&words)[4] = to[i].words;
    TRAINER_TENSOR_CORES("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                         : "r"(shared_address(rows[i])));
  }
}
template <int n>
__device__ __forceinline__ void load_transposed_fragments(Fragment (&to)[n], const void* const (&rows)[n]) {
  TRAINER_UNROLL
  for (int i = 0; i < n; ++i) {
    std::uint32_t(&words)[4] = to[i].words;
    TRAINER_TENSOR_CORES("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                         : "r"(shared_address(rows[i])));
  }
}

template <typename T>
__device__ __forceinline__ void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  if constexpr (is_bf16<T>) {
    TRAINER_TENSOR_CORES(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    TRAINER_TENSOR_CORES(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

template <typename T, int m, int n>
__device__ __forceinline__ void multiply_add(FragmentSums (&sums)[m][2 * n], const Fragment (&a)[m],
                                             const Fragment (&b)[n]) {
  TRAINER_UNROLL
  for (int j = 0; j < n; ++j) {
    TRAINER_UNROLL
    for (int i = 0; i < m; ++i) {
      multiply_add<T>(sums[i][2 * j].values, a[i].words, b[j].words[0], b[j].words[1]);
      multiply_add<T>(sums[i][2 * j + 1].values, a[i].words, b[j].words[2], b[j].words[3]);
    }
  }
}

template <typename T>
__device__ __forceinline__ std::uint32_t pair_of(float low, float high) {
  std::uint32_t pair = 0;
  if constexpr (is_bf16<T>) {
    TRAINER_CONVERSION("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    TRAINER_CONVERSION("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

__device__ __forceinline__ void copy_ahead(void* to, const void* from, bool is_there) {
  TRAINER_TENSOR_CORES("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                       "r"(is_there ? 16 : 0)
                       : "memory");
}
__device__ __forceinline__ void end_copies() { TRAINER_TENSOR_CORES("cp.async.commit_group;" ::: "memory"); }
template <int n>
__device__ __forceinline__ void wait_for_copies() {
  TRAINER_TENSOR_CORES("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

__device__ __forceinline__ int computed_anew(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace trainer::cuda

#undef TRAINER_TENSOR_CORES
#undef TRAINER_CONVERSION
