#include "engine/cpu/softmax_row.h"

#include "engine/cpu/vector_math.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD float largest(const float* values, std::int64_t count) {
  float result = values[0];
#pragma omp simd reduction(max : result)
  for (std::int64_t i = 1; i < count; ++i) result = values[i] > result ? values[i] : result;
  return result;
}

TRAINER_SIMD float sum_exp(const float* values, float shift, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += vector_exp(values[i] - shift);
  return sum;
}

}  // namespace

TRAINER_SIMD std::int64_t classes_before(const float* logits, float reached, std::int64_t first_behind,
                                         std::int64_t count) {
  std::int64_t before = 0;
#pragma omp simd reduction(+ : before)
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_behind = logits[i] < reached || (logits[i] == reached && i >= first_behind);
    before += is_behind ? 0 : 1;
  }
  return before;
}

Softmax::Softmax(const float* logits, std::int64_t classes)
    : shift(largest(logits, classes)), sum(static_cast<double>(sum_exp(logits, shift, classes))) {}

}  // namespace trainer
