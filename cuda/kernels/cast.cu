#include "cuda/kernels/cast.h"

#include "cuda/kernels/elementwise.cuh"

namespace trainer::cuda {

namespace {

constexpr int cast_width = 8;  // elements of a thread

template <typename From, typename To, bool packed>
__global__ void __launch_bounds__(elementwise_threads) cast_kernel(const From* x, To* y, std::int64_t count) {
  wait_for_earlier_kernels();
  const std::int64_t first = (std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x) * cast_width;
  if (packed && first + cast_width <= count) {
    store_floats(y + first, load_floats<cast_width>(x + first));
    return;
  }
  for (int i = 0; i < cast_width && first + i < count; ++i) y[first + i] = from_float<To>(to_float(x[first + i]));
}

}  // namespace

void cast(DType from, const void* x, DType to, void* y, std::int64_t count, Stream stream) {
  with_element_type(from, [&]<typename From>(ElementType<From>) {
    with_element_type(to, [&]<typename To>(ElementType<To>) {
      const bool packed = reinterpret_cast<std::uintptr_t>(x) % sizeof(Pack<From, cast_width>) == 0 &&
                          reinterpret_cast<std::uintptr_t>(y) % sizeof(Pack<To, cast_width>) == 0;
      launch(packed ? cast_kernel<From, To, true> : cast_kernel<From, To, false>, elementwise_grid(count, cast_width),
             {elementwise_threads}, stream, static_cast<const From*>(x), static_cast<To*>(y), count);
    });
  });
}

}  // namespace trainer::cuda
