#include "cuda/kernels/add.h"

#include "cuda/kernels/elementwise.cuh"

namespace trainer::cuda {
namespace {

struct PlainSum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct SumRelu {
  __device__ float operator()(float a, float b) const {
    const float sum = a + b;
    return sum < 0 ? 0.0f : sum;
  }
};

__global__ void __launch_bounds__(elementwise_threads)
    add_doubles_kernel(const double* a, const double* b, double* y, std::int64_t count) {
  wait_for_earlier_kernels();
  const std::int64_t i = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x;
  if (i < count) y[i] = a[i] + b[i];
}

}  // namespace

void add_doubles(const double* a, const double* b, double* y, std::int64_t count, Stream stream) {
  launch(add_doubles_kernel, elementwise_grid(count, 1), {elementwise_threads}, stream, a, b, y, count);
}

void add(DType type, bool relu, const void* a, const void* b, void* y, std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    if (relu) {
      launch_elementwise<T>(SumRelu{}, count, stream, y, a, b);
    } else {
      launch_elementwise<T>(PlainSum{}, count, stream, y, a, b);
    }
  });
}

}  // namespace trainer::cuda
