#include "cuda/kernels/cached_attention.h"

#include "cuda/kernels/elementwise.cuh"
#include "cuda/kernels/reduce.cuh"
#include "engine/rotation.h"

namespace trainer::cuda {
namespace {

/// Feature `i` of a head's row at `position`, rotated.
template <typename T>
__device__ __forceinline__ float feature_at(const T* row, int i, const AttentionSizes& sizes, std::int64_t position) {
  const float x = to_float(row[i]);
  if (!sizes.rotates) return x;
  const int half = sizes.width / 2;
  const bool is_first = i < half;
  const Rotation rotation =
      rotation_of(static_cast<float>(position) * sizes.rotary_frequencies[is_first ? i : i - half]);
  const float other = to_float(row[is_first ? i + half : i - half]);
  return x * rotation.cosine + (is_first ? -other : other) * rotation.sine;
}

template <typename T>
__global__ void __launch_bounds__(elementwise_threads)
    keep_tokens_kernel(AttentionSizes sizes, std::int64_t count, const T* __restrict__ k, const T* __restrict__ v,
                       const std::int32_t* __restrict__ positions, T* keys, T* values) {
  wait_for_earlier_kernels();
  const std::int64_t at = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x;
  if (at >= count) return;
  const std::int64_t row_features = std::int64_t{sizes.kv_heads} * sizes.width;
  const std::int64_t token = at / row_features, position = positions[token];
  if (position < 0 || position >= sizes.keys) return;
  const std::int64_t feature = at - token * row_features;
  const int i = static_cast<int>(feature % sizes.width);
  const std::int64_t from = token * sizes.key_features + feature;
  const std::int64_t to = (token / sizes.queries * sizes.keys + position) * row_features + feature;
  keys[to] = from_float<T>(feature_at(k + (from - i), i, sizes, position));
  values[to] = v[from];
}

constexpr int cached_threads = 128, cached_warps = cached_threads / warp_size;

template <typename T, int features>
__global__ void __launch_bounds__(cached_threads)
    cached_attention_kernel(AttentionSizes sizes, const T* __restrict__ q, const T* __restrict__ keys,
                            const T* __restrict__ values, const std::int32_t* __restrict__ positions, T* y) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, largest_of, cached_warps);
  TRAINER_SHARED(float, total_of, cached_warps);
  TRAINER_SHARED(float, sums_of, cached_warps* features* warp_size);
  const auto token = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(sizes.heads));
  const int head = static_cast<int>(blockIdx.x - token * sizes.heads), kv_head = head / (sizes.heads / sizes.kv_heads);
  const unsigned sample = static_cast<unsigned>(token) / static_cast<unsigned>(sizes.queries);
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t position = positions[token];
  const bool is_token = position >= 0 && position < sizes.keys;
  const std::int64_t row_features = std::int64_t{sizes.kv_heads} * sizes.width;
  const std::int64_t of_head = sample * sizes.keys * row_features + std::int64_t{kv_head} * sizes.width;

  float query[features], sums[features];
  for (int f = 0; f < features; ++f) {
    const int i = lane + f * warp_size;
    sums[f] = 0;
    query[f] = 0;
    if (is_token && i < sizes.width)
      query[f] = sizes.scale *
                 feature_at(q + token * sizes.query_features + std::int64_t{head} * sizes.width, i, sizes, position);
  }
  float largest = -3.402823466e38f, total = 0;
  std::int64_t begin = 0;
  if (sizes.window > 0 && position + 1 > sizes.window) begin = position + 1 - sizes.window;
  const std::int64_t end = is_token ? position + 1 : begin;
  for (std::int64_t first = begin; first < end; first += cached_warps) {
    const std::int64_t key = first + warp;  // the same for a whole warp
    if (key >= end) break;
    const std::int64_t row = of_head + key * row_features;
    float product = 0;
    for (int f = 0; f < features; ++f) {
      const int i = lane + f * warp_size;
      if (i < sizes.width) product += query[f] * to_float(keys[row + i]);
    }
    const float score = warp_sum(product), highest = fmaxf(largest, score);
    const float factor = expf(largest - highest), weight = expf(score - highest);
    total = total * factor + weight;
    largest = highest;
    for (int f = 0; f < features; ++f) {
      const int i = lane + f * warp_size;
      if (i < sizes.width) sums[f] = sums[f] * factor + weight * to_float(values[row + i]);
    }
  }
  if (lane == 0) {
    largest_of[warp] = largest;
    total_of[warp] = total;
  }
  for (int f = 0; f < features; ++f) sums_of[(warp * features + f) * warp_size + lane] = sums[f];
  __syncthreads();
  float highest = largest_of[0];
  for (int other = 1; other < cached_warps; ++other) highest = fmaxf(highest, largest_of[other]);
  float whole = 0;
  for (int other = 0; other < cached_warps; ++other) whole += total_of[other] * expf(largest_of[other] - highest);
  for (int i = static_cast<int>(threadIdx.x); i < sizes.width; i += cached_threads) {
    float sum = 0;
    for (int other = 0; other < cached_warps; ++other)
      sum += sums_of[other * features * warp_size + i] * expf(largest_of[other] - highest);
    y[(token * sizes.heads + head) * sizes.width + i] = from_float<T>(is_token ? sum / whole : 0.0f);
  }
}

template <int features>
struct LaneFeatures {
  static constexpr int count = features;
};

/// Calls function(LaneFeatures<n>{}) with the features of a head that a lane has.
template <typename Function>
void with_lane_features(int width, Function&& function) {
  if (width <= 2 * warp_size) return function(LaneFeatures<2>{});
  if (width <= 4 * warp_size) return function(LaneFeatures<4>{});
  function(LaneFeatures<8>{});
}

}  // namespace

void cached_attention(DType type, const CachedAttentionOperands& operands, void* y, const AttentionSizes& sizes,
                      Stream stream) {
  const std::int64_t num_tokens = sizes.samples * sizes.queries;
  const std::int64_t count = num_tokens * sizes.kv_heads * sizes.width;
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch(keep_tokens_kernel<T>, elementwise_grid(count, 1), {elementwise_threads}, stream, sizes, count,
           static_cast<const T*>(operands.k), static_cast<const T*>(operands.v), operands.positions,
           static_cast<T*>(operands.keys), static_cast<T*>(operands.values));
    with_lane_features(sizes.width, [&](auto of_lane) {
      launch(cached_attention_kernel<T, decltype(of_lane)::count>, grid_of(num_tokens * sizes.heads), {cached_threads},
             stream, sizes, static_cast<const T*>(operands.q), static_cast<const T*>(operands.keys),
             static_cast<const T*>(operands.values), operands.positions, static_cast<T*>(y));
    });
  });
}

}  // namespace trainer::cuda
