#include "engine/half.h"

#include <cstring>

#include "engine/errors.h"

namespace trainer {

namespace {

TRAINER_SIMD void widen_float16(const Float16* from, float* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

TRAINER_SIMD void widen_bfloat16(const BFloat16* from, float* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

TRAINER_SIMD void narrow_float16(const float* from, Float16* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i].bits = float16_bits(from[i]);
}

TRAINER_SIMD void narrow_bfloat16(const float* from, BFloat16* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i].bits = bfloat16_bits(from[i]);
}

}  // namespace

void widen(DType type, const void* from, float* to, std::int64_t count) {
  switch (type) {
    case DType::f32:
      if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::f16:
      return widen_float16(static_cast<const Float16*>(from), to, count);
    case DType::bf16:
      return widen_bfloat16(static_cast<const BFloat16*>(from), to, count);
    default:
      throw InternalError("internal error: elements are widened that are no floating-point numbers");
  }
}

void narrow(DType type, const float* from, void* to, std::int64_t count) {
  switch (type) {
    case DType::f32:
      if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::f16:
      return narrow_float16(from, static_cast<Float16*>(to), count);
    case DType::bf16:
      return narrow_bfloat16(from, static_cast<BFloat16*>(to), count);
    default:
      throw InternalError("internal error: elements are narrowed to what is no floating-point number");
  }
}

}  // namespace trainer
