#include "engine/cpu/relu.h"

#include "engine/cpu/parallel.h"
#include "engine/cpu/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void relu_loop(float* values, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) values[i] = values[i] < 0 ? 0 : values[i];
}

}  // namespace

void relu_in_place(float* values, std::int64_t count, int num_threads) {
  parallel_elements(num_threads, count,
                    [values](std::int64_t begin, std::int64_t end) { relu_loop(values, begin, end); });
}

}  // namespace trainer
