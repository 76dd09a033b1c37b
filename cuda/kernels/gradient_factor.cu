#include "cuda/kernels/gradient_factor.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/tensor_table.cuh"
#include "engine/ops/exact_sum.h"
#include "engine/ops/loss_scale.h"

namespace trainer::cuda {

namespace {

template <typename T, int capacity>
__global__ void __launch_bounds__(table_threads)
    sum_squares_kernel(TensorTable<1, capacity> table, double* __restrict__ sums) {
  wait_for_earlier_kernels();
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
    add_squares_kernel(const double* __restrict__ sums, std::int64_t count, double* __restrict__ squares) {
  wait_for_earlier_kernels();
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += table_threads) sum += sums[i];
  sum = block_sum<table_threads>(sum);
  if (threadIdx.x == 0) squares[0] = sum;
}

constexpr int blocks_of_chunk = static_cast<int>(chunk_elements / exact_block_elements);

/// The squares of each exact_block_elements of a chunk by a warp.
template <typename T, int capacity>
__global__ void __launch_bounds__(table_threads)
    block_squares_kernel(TensorTable<1, capacity> table, double* __restrict__ sums) {
  wait_for_earlier_kernels();
  const TensorChunk chunk = chunk_of_block(table);
  const auto* const gradient = static_cast<const T*>(table.addresses[0][chunk.tensor]);
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int block = static_cast<int>(threadIdx.x) / warp_size; block < blocks_of_chunk;
       block += table_threads / warp_size) {
    const std::int64_t begin = chunk.begin + block * exact_block_elements;
    double sum = 0;
    for (std::int64_t at = begin + lane; at < begin + exact_block_elements && at < chunk.end; at += warp_size) {
      const auto value = static_cast<double>(to_float(gradient[at]));
      sum += value * value;
    }
    sum = warp_sum(sum);
    if (lane == 0) sums[static_cast<std::int64_t>(blockIdx.x) * blocks_of_chunk + block] = sum;
  }
}

constexpr int exact_threads = 128;

__global__ void __launch_bounds__(exact_threads)
    add_exactly_kernel(const double* __restrict__ sums, std::int64_t count, std::int64_t* __restrict__ squares) {
  TRAINER_SHARED(std::int64_t, columns, num_exact_sum * exact_threads);  // a thread's digits: one in each row
  wait_for_earlier_kernels();
  const int thread = static_cast<int>(threadIdx.x);
  for (int digit = 0; digit < num_exact_sum; ++digit) columns[digit * exact_threads + thread] = 0;
  for (std::int64_t i = thread; i < count; i += exact_threads) add_exactly(sums[i], columns + thread, exact_threads);
  __syncthreads();
  if (thread >= num_exact_sum) return;
  std::int64_t digit = 0;
  for (int column = 0; column < exact_threads; ++column) digit += columns[thread * exact_threads + column];
  squares[thread] = digit;
}

__device__ __forceinline__ void settle_factor(double sum, const GradientFactorAttributes& attributes,
                                              const double* loss_scale, float* factor) {
  const double unscale = attributes.scaled ? 1 / loss_scale[loss_scale_factor] : 1;
  const double norm = sqrt(sum) * unscale;
  const double clip = attributes.clip_norm > 0 ? attributes.clip_norm / (norm + 1e-6) : 1;
  factor[gradient_norm_value] = static_cast<float>(norm);
  factor[gradient_multiplier] = static_cast<float>(clip > 1 ? unscale : clip * unscale);  // NaN stays
  // The squares of numbers that f16, bf16 or f32 holds never overflow f64; what is not finite less itself is NaN.
  factor[gradients_finite] = sum - sum == 0 ? 1.0f : 0.0f;
}

__global__ void __launch_bounds__(warp_size)
    settle_exact_factor_kernel(const std::int64_t* __restrict__ squares, GradientFactorAttributes attributes,
                               const double* loss_scale, float* __restrict__ factor) {
  wait_for_earlier_kernels();
  if (threadIdx.x == 0) settle_factor(exact_total(squares), attributes, loss_scale, factor);
}

__global__ void __launch_bounds__(table_threads)
    settle_factor_kernel(const double* __restrict__ sums, std::int64_t count, GradientFactorAttributes attributes,
                         const double* loss_scale, float* __restrict__ factor) {
  wait_for_earlier_kernels();
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += table_threads) sum += sums[i];
  sum = block_sum<table_threads>(sum);
  if (threadIdx.x == 0) settle_factor(sum, attributes, loss_scale, factor);
}

/// Launches for all chunks of gradients, by their type: launch_table(element type, table, number of chunks, those
/// before). How many there are.
template <typename LaunchTable>
std::int64_t for_each_chunk_table(std::span<const GradientView> gradients, LaunchTable&& launch_table) {
  static_assert(gradient_factor_chunks(chunk_elements) == 1 && gradient_factor_chunks(chunk_elements + 1) == 2);
  std::int64_t num_chunks = 0;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    with_element_type(type, [&](auto element) {
      // A gradient of another type stands in the table without elements.
      const auto entry = [&](std::int64_t i) -> TableEntry<1> {
        const GradientView& view = gradients[static_cast<std::size_t>(i)];
        return {{const_cast<void*>(view.data)}, view.type == type ? view.count : 0};
      };
      for_each_table<1>(std::ssize(gradients), entry,
                        [&]<int capacity>(const TensorTable<1, capacity>& table, std::int64_t blocks) {
                          launch_table(element, table, blocks, num_chunks);
                          num_chunks += blocks;
                        });
    });
  }
  return num_chunks;
}

/// A sum a chunk; how many these are.
std::int64_t sum_chunks(std::span<const GradientView> gradients, double* sums, Stream stream) {
  return for_each_chunk_table(gradients, [&]<int capacity>(auto element, const TensorTable<1, capacity>& table,
                                                           std::int64_t num_chunks, std::int64_t num_before) {
    launch(sum_squares_kernel<typename decltype(element)::type, capacity>, {static_cast<unsigned>(num_chunks)},
           {table_threads}, stream, table, sums + num_before);
  });
}

}  // namespace

void gradient_factor(std::span<const GradientView> gradients, const GradientFactorAttributes& attributes,
                     const double* loss_scale, float* factor, void* workspace, Stream stream) {
  auto* const sums = static_cast<double*>(workspace);
  const std::int64_t num_sums = sum_chunks(gradients, sums, stream);
  launch(settle_factor_kernel, {1}, {table_threads}, stream, static_cast<const double*>(sums), num_sums, attributes,
         loss_scale, factor);
}

void gradient_squares(std::span<const GradientView> gradients, double* squares, void* workspace, Stream stream) {
  auto* const sums = static_cast<double*>(workspace);
  const std::int64_t num_sums = sum_chunks(gradients, sums, stream);
  launch(add_squares_kernel, {1}, {table_threads}, stream, static_cast<const double*>(sums), num_sums, squares);
}

void exact_gradient_squares(std::span<const GradientView> gradients, std::int64_t* squares, void* workspace,
                            Stream stream) {
  auto* const sums = static_cast<double*>(workspace);
  const std::int64_t num_chunks =
      for_each_chunk_table(gradients, [&]<int capacity>(auto element, const TensorTable<1, capacity>& table,
                                                        std::int64_t num_launched, std::int64_t num_before) {
        launch(block_squares_kernel<typename decltype(element)::type, capacity>, {static_cast<unsigned>(num_launched)},
               {table_threads}, stream, table, sums + num_before * blocks_of_chunk);
      });
  launch(add_exactly_kernel, {1}, {exact_threads}, stream, static_cast<const double*>(sums),
         num_chunks * blocks_of_chunk, squares);
}

void gradient_factor_of_exact_squares(const std::int64_t* squares, const GradientFactorAttributes& attributes,
                                      const double* loss_scale, float* factor, Stream stream) {
  launch(settle_exact_factor_kernel, {1}, {warp_size}, stream, squares, attributes, loss_scale, factor);
}

void gradient_factor_of_squares(const double* squares, const GradientFactorAttributes& attributes,
                                const double* loss_scale, float* factor, Stream stream) {
  launch(settle_factor_kernel, {1}, {table_threads}, stream, squares, std::int64_t{1}, attributes, loss_scale, factor);
}

}  // namespace trainer::cuda
