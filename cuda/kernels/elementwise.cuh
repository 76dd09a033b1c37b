#pragma once
// Kernels in which one element of the output depends on the elements at the same place of the inputs.

#include <cstdint>

#include "cuda/kernels/element.h"
#include "cuda/kernels/grid.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

inline constexpr int elementwise_threads = 256;

/// The grid in which each thread has `per_thread` of `count` elements.
inline Dim3 elementwise_grid(std::int64_t count, std::int64_t per_thread) {
  return grid_of(num_blocks(count, elementwise_threads * per_thread));
}

template <int width, typename Function, typename T, typename... Inputs>
__global__ void __launch_bounds__(elementwise_threads)
    elementwise_kernel(Function function, std::int64_t count, T* y, const Inputs*... x) {
  wait_for_earlier_kernels();
  const std::int64_t first = (std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x) * width;
  if (first + width <= count) {
    const auto compute = [&](const auto&... values) {
      Pack<float, width> result;
      for (int i = 0; i < width; ++i) result.values[i] = function(values.values[i]...);
      return result;
    };
    store_floats(y + first, compute(load_floats<width>(x + first)...));
    return;
  }
  for (std::int64_t i = first; i < count; ++i) y[i] = from_float<T>(function(to_float(x[i])...));
}

/// y[i] = function(x[i]...) in f32, for `count` elements of T; y may be any of the inputs.
template <typename T, typename Function, typename... Inputs>
void launch_elementwise(const Function& function, std::int64_t count, Stream stream, void* y, const Inputs*... x) {
  // The last pack may be a part of one, so only the addresses decide.
  with_pack_width<T>(0, {y, x...}, [&](auto width) {
    launch(elementwise_kernel<width, Function, T, std::conditional_t<true, T, Inputs>...>,
           elementwise_grid(count, width), {elementwise_threads}, stream, function, count, static_cast<T*>(y),
           static_cast<const T*>(x)...);
  });
}

}  // namespace trainer::cuda
