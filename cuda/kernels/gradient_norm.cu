#include "cuda/kernels/gradient_norm.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/tensor_table.cuh"

namespace trainer::cuda {

namespace {

template <typename T, int capacity>
__global__ void __launch_bounds__(table_threads)
    sum_squares_kernel(TensorTable<1, capacity> table, double* __restrict__ sums) {
  const TensorChunk chunk = chunk_of_block(table);
  const auto* const gradient = static_cast<const T*>(table.addresses[0][chunk.tensor]);
  const bool aligned = reinterpret_cast<std::uintptr_t>(gradient) % 16 == 0;
  double sum = 0;
  for_each_element(chunk, aligned, [&](auto width, std::int64_t at) {
    constexpr int n = decltype(width)::value;
    const Pack<float, n> values = load_floats<n>(gradient + at);
    for (int i = 0; i < n; ++i) sum += static_cast<double>(values.values[i]) * static_cast<double>(values.values[i]);
  });
  sum = block_sum<table_threads>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(table_threads)
    settle_norm_kernel(const double* __restrict__ sums, std::int64_t count, double clip_norm,
                       float* __restrict__ norm_and_factor) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += table_threads) sum += sums[i];
  sum = block_sum<table_threads>(sum);
  if (threadIdx.x > 0) return;
  const double norm = sqrt(sum);
  const double factor = clip_norm / (norm + 1e-6);
  norm_and_factor[0] = static_cast<float>(norm);
  norm_and_factor[1] = factor > 1 ? 1.0f : static_cast<float>(factor);  // NaN stays
}

}  // namespace

void gradient_norm(DType type, std::span<const GradientView> gradients, double clip_norm, float* norm_and_factor,
                   void* workspace, Stream stream) {
  auto* const sums = static_cast<double*>(workspace);
  static_assert(gradient_norm_chunks(chunk_elements) == 1 && gradient_norm_chunks(chunk_elements + 1) == 2);
  std::int64_t num_sums = 0;
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto view = [&](std::int64_t i) -> const GradientView& { return gradients[static_cast<std::size_t>(i)]; };
    for_each_table<1>(
        std::ssize(gradients), [&](std::int64_t i) { return view(i).count; },
        [&](std::int64_t i) { return std::array{const_cast<void*>(view(i).data)}; },
        [&]<int capacity>(const TensorTable<1, capacity>& table, std::int64_t blocks) {
          launch(sum_squares_kernel<T, capacity>, {static_cast<unsigned>(blocks)}, {table_threads}, stream, table,
                 sums + num_sums);
          num_sums += blocks;
        });
  });
  launch(settle_norm_kernel, {1}, {table_threads}, stream, static_cast<const double*>(sums), num_sums, clip_norm,
         norm_and_factor);
}

}  // namespace trainer::cuda
