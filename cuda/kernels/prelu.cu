#include "cuda/kernels/prelu.h"

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

constexpr int prelu_rows_at_once = 4;
constexpr int most_prelu_lanes = 32;

/// The slopes of n channels from `channel` on.
template <int n>
__device__ __forceinline__ Pack<float, n> load_slopes(const float* weight, bool has_one_slope, std::int64_t channel) {
  if (!has_one_slope) return load_floats<n>(weight + channel);
  Pack<float, n> slopes;
  for (int i = 0; i < n; ++i) slopes.values[i] = *weight;
  return slopes;
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    prelu_forward_kernel(const T* x, const float* __restrict__ weight, T* y, std::int64_t rows, std::int64_t channels,
                         bool has_one_slope, std::int64_t rows_per_block, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  const Pack<float, n> slopes = load_slopes<n>(weight, has_one_slope, at.channel);
  visit_rows<prelu_rows_at_once>(begin, end, at.channel, channels,
                                 [&](std::int64_t first, std::int64_t step, auto count) {
                                   constexpr int num_rows = decltype(count)::value;
                                   Pack<float, n> values[num_rows];
                                   for (int u = 0; u < num_rows; ++u) values[u] = load_floats<n>(x + first + u * step);
                                   for (int u = 0; u < num_rows; ++u) {
                                     for (int i = 0; i < n; ++i) {
                                       const float value = values[u].values[i];
                                       values[u].values[i] = value > 0 ? value : slopes.values[i] * value;
                                     }
                                     store_floats(y + first + u * step, values[u]);
                                   }
                                 });
}

/// Writes the sums of one part of the rows to `sums` + part · channels.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    prelu_backward_kernel(const T* dy, const T* __restrict__ x, const float* __restrict__ weight, T* dx,
                          float* __restrict__ sums, std::int64_t rows, std::int64_t channels, bool has_one_slope,
                          std::int64_t rows_per_part, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  using Sums = Pack<float, n>;
  TRAINER_SHARED(Sums, upper, tile_threads / 2);
  const TilePosition at = tile_position<n>(num_tiles, channels);
  Sums sum{};
  if (at.active) {
    const auto [begin, end] = at.rows_of_group(rows_per_part, rows);
    const Pack<float, n> slopes = load_slopes<n>(weight, has_one_slope, at.channel);
    visit_rows<prelu_rows_at_once>(begin, end, at.channel, channels,
                                   [&](std::int64_t first, std::int64_t step, auto count) {
                                     constexpr int num_rows = decltype(count)::value;
                                     Pack<float, n> gradients[num_rows], values[num_rows];
                                     for (int u = 0; u < num_rows; ++u) {
                                       gradients[u] = load_floats<n>(dy + first + u * step);
                                       values[u] = load_floats<n>(x + first + u * step);
                                     }
                                     for (int u = 0; u < num_rows; ++u) {
                                       for (int i = 0; i < n; ++i) {
                                         const float gradient = gradients[u].values[i], value = values[u].values[i];
                                         const bool passes = value > 0;
                                         sum.values[i] += passes ? 0.0f : gradient * value;
                                         gradients[u].values[i] = passes ? gradient : slopes.values[i] * gradient;
                                       }
                                       store_floats(dx + first + u * step, gradients[u]);
                                     }
                                   });
  }
  for (unsigned half_rows = blockDim.y / 2; half_rows > 0; half_rows /= 2) {
    if (threadIdx.y >= half_rows && threadIdx.y < 2 * half_rows) {
      upper[(threadIdx.y - half_rows) * blockDim.x + threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.y < half_rows) {
      const Sums& other = upper[threadIdx.y * blockDim.x + threadIdx.x];
      for (int i = 0; i < n; ++i) sum.values[i] += other.values[i];
    }
    __syncthreads();
  }
  if (threadIdx.y > 0 || !at.active) return;
  store_floats(sums + at.row_group * channels + at.channel, sum);
}

constexpr int combined_slopes = 8, slope_threads = 32;

/// dweight = the sums of all parts (num_parts, num); threads along x have a slope each, those along y every 32nd part.
__global__ void __launch_bounds__(combined_slopes* slope_threads)
    combine_prelu_gradient_kernel(const float* __restrict__ sums, float* __restrict__ dweight, std::int64_t num_parts,
                                  std::int64_t num) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(double, of_thread, combined_slopes* slope_threads);
  const std::int64_t slope = std::int64_t{blockIdx.x} * combined_slopes + threadIdx.x;
  double sum = 0;
  if (slope < num) {
    for (std::int64_t part = threadIdx.y; part < num_parts; part += slope_threads) {
      sum += static_cast<double>(sums[part * num + slope]);
    }
  }
  of_thread[threadIdx.y * combined_slopes + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || slope >= num) return;
  for (int y = 1; y < slope_threads; ++y) sum += of_thread[y * combined_slopes + threadIdx.x];
  dweight[slope] = static_cast<float>(sum);
}

}  // namespace

void prelu_forward(DType type, const void* x, const float* weight, void* y, const PreluShape& shape, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {x, y, shape.has_one_slope ? nullptr : weight}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(shape.channels / n, most_prelu_lanes);
      const std::int64_t rows_per_block = tiles.rows_per_block(shape.rows);
      launch(prelu_forward_kernel<T, n>, tiles.grid(num_blocks(shape.rows, rows_per_block)), tiles.block(), stream,
             static_cast<const T*>(x), weight, static_cast<T*>(y), shape.rows, shape.channels, shape.has_one_slope,
             rows_per_block, tiles.num_tiles);
    });
  });
}

void prelu_backward(DType type, const void* dy, const void* x, const float* weight, void* dx, float* dweight,
                    void* workspace, const PreluShape& shape, Stream stream) {
  auto* const sums = static_cast<float*>(workspace);
  const RowParts parts = row_parts(shape.rows, shape.channels);
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {dy, x, dx, workspace, shape.has_one_slope ? nullptr : weight}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(shape.channels / n, most_prelu_lanes);
      launch(prelu_backward_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(), stream, static_cast<const T*>(dy),
             static_cast<const T*>(x), weight, static_cast<T*>(dx), sums, shape.rows, shape.channels,
             shape.has_one_slope, parts.rows_per_part, tiles.num_tiles);
    });
  });
  const std::int64_t num = shape.has_one_slope ? 1 : shape.channels;
  launch(combine_prelu_gradient_kernel, {static_cast<unsigned>(num_blocks(num, combined_slopes))},
         {combined_slopes, slope_threads}, stream, static_cast<const float*>(sums), dweight,
         parts.num_parts * shape.channels / num, num);
}

}  // namespace trainer::cuda
