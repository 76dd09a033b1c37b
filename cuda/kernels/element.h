#pragma once

#include "cuda/launch/launch.h"
#include "engine/dtype.h"
#include "engine/errors.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include "cuda/launch/host_half.h"
#endif

namespace trainer::cuda {

// The element types kernels are made for: float, half, bfloat16. Kernels compute in f32: to_float, from_float<T>
// (round to nearest even).
#if defined(__CUDACC__)
using half = __half;
using bfloat16 = __nv_bfloat16;
#endif

__host__ __device__ __forceinline__ float to_float(float value) { return value; }
__host__ __device__ __forceinline__ float to_float(half value) { return static_cast<float>(value); }
__host__ __device__ __forceinline__ float to_float(bfloat16 value) { return static_cast<float>(value); }

template <typename T>
__host__ __device__ __forceinline__ T from_float(float value) {
  return T(value);
}

template <typename T>
struct ElementType {
  using type = T;
};

/// Calls `function(ElementType<T>{})` with the T of a floating-point `type`: how launchers, which plain C++ calls with
/// a DType, reach a kernel's template.
template <typename Function>
void with_element_type(DType type, Function&& function) {
  switch (type) {
    case DType::f32:
      return function(ElementType<float>{});
    case DType::f16:
      return function(ElementType<half>{});
    case DType::bf16:
      return function(ElementType<bfloat16>{});
    default:
      throw InternalError("internal error: a kernel is asked for elements that are no floating-point numbers");
  }
}

}  // namespace trainer::cuda
