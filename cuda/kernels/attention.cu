#include "cuda/kernels/attention.h"

#include "cuda/kernels/attention_mma.h"
#include "cuda/kernels/attention_tiles.cuh"
#include "cuda/kernels/elementwise.cuh"
#include "engine/rotation.h"

namespace trainer::cuda {
namespace {

/// rotations (positions, pairs) of cosine and sine.
__global__ void __launch_bounds__(elementwise_threads)
    attention_rotations_kernel(AttentionSizes sizes, std::int64_t count, float* rotations) {
  wait_for_earlier_kernels();
  const std::int64_t at = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x;
  if (at >= count) return;
  const int pairs = sizes.width / 2;
  const std::int64_t position = at / pairs;
  const Rotation rotation = rotation_of(static_cast<float>(position) * sizes.rotary_frequencies[at - position * pairs]);
  rotations[2 * at] = rotation.cosine;
  rotations[2 * at + 1] = rotation.sine;
}

template <typename Tile>
__device__ __forceinline__ float largest_of_row(float value) {
  for (int mask = Tile::side / 2; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor(value, mask));
  return value;
}
template <typename Tile>
__device__ __forceinline__ float sum_of_row(float value) {
  for (int mask = Tile::side / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::threads)
    attention_forward_kernel(AttentionSizes sizes, const T* q, const T* k, const T* v, const StepScalars* scalars,
                             const std::int32_t* spans, const float* rotations, T* y, float* lse) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, queries, Tile::floats);
  TRAINER_SHARED(float, keys, Tile::floats);
  TRAINER_SHARED(float, values, Tile::floats);
  TRAINER_SHARED(float, weights, Tile::square);
  const AttentionPlace place = attention_place<Tile>(sizes.queries, sizes.heads);
  const int width = sizes.width, kv_head = place.head / (sizes.heads / sizes.kv_heads);
  const std::int64_t of_head = place.sample * sizes.heads + place.head;
  const PhiloxStream philox = philox_of(sizes, scalars, place.sample);
  const SampleSpans sample_spans(spans, sizes, place.sample);
  const HeadRows<const T> q_rows(q, sizes.query_features, sizes.queries, place.sample, place.head * width);
  const HeadRows<const T> k_rows(k, sizes.key_features, sizes.keys, place.sample, kv_head * width);
  const HeadRows<const T> v_rows(v, sizes.key_features, sizes.keys, place.sample, kv_head * width);
  load_tile<Tile>(queries, q_rows, place.first, width, rotations, sizes.scale);

  RowsPart<Tile> sums{};
  float largest[Tile::per_thread], total[Tile::per_thread];
  for (int i = 0; i < Tile::per_thread; ++i) {
    largest[i] = -3.402823466e38f;
    total[i] = 0;
  }
  std::int64_t begin = 0, end = sizes.keys;
  if (sizes.causal) {
    if (sizes.window > 0 && place.first + 1 > sizes.window) begin = place.first + 1 - sizes.window;
    if (place.first + Tile::rows < end) end = place.first + Tile::rows;
  }
  sample_spans.cut(place.first, Tile::rows, sizes, begin, end);
  for (std::int64_t first_key = begin; first_key < end; first_key += Tile::rows) {
    __syncthreads();  // the tiles of the keys before have been read
    load_tile<Tile>(keys, k_rows, first_key, width, rotations, 1.0f);
    load_tile<Tile>(values, v_rows, first_key, width, static_cast<const float*>(nullptr), 1.0f);
    __syncthreads();
    SquarePart<Tile> part = tile_product<Tile>(queries, keys, width);
    for (int i = 0; i < Tile::per_thread; ++i) {
      const std::int64_t query = place.first + Tile::thread_row() + i * Tile::side;
      float highest = largest[i];
      for (int j = 0; j < Tile::per_thread; ++j) {
        const std::int64_t key = first_key + Tile::thread_column() + j * Tile::side;
        if (!is_visible(sizes, sample_spans, query, key)) part.values[i][j] = -INFINITY;
        highest = fmaxf(highest, part.values[i][j]);
      }
      highest = largest_of_row<Tile>(highest);
      const float factor = expf(largest[i] - highest);
      largest[i] = highest;
      float sum = 0;
      for (int j = 0; j < Tile::per_thread; ++j) {
        part.values[i][j] = expf(part.values[i][j] - highest);
        sum += part.values[i][j];
      }
      total[i] = total[i] * factor + sum_of_row<Tile>(sum);
      for (int f = 0; f < Tile::features; ++f) sums.values[i][f] *= factor;
    }
    if (sizes.drops) {
      for (int i = 0; i < Tile::per_thread; ++i)
        for (int j = 0; j < Tile::per_thread; ++j)
          part.values[i][j] *= kept_factor(sizes, philox, of_head, place.first + Tile::thread_row() + i * Tile::side,
                                           first_key + Tile::thread_column() + j * Tile::side);
    }
    store_square<Tile>(weights, part);
    __syncthreads();
    add_product<Tile>(sums, weights, values, width);
  }
  for (int i = 0; i < Tile::per_thread; ++i) {
    const std::int64_t query = place.first + Tile::thread_row() + i * Tile::side;
    if (query >= sizes.queries) continue;
    if (Tile::thread_column() == 0) lse[of_head * sizes.queries + query] = largest[i] + logf(total[i]);
    T* const row = y + ((place.sample * sizes.queries + query) * sizes.heads + place.head) * width;
    for (int f = 0; f < Tile::features; ++f) {
      const int feature = Tile::thread_column() + f * Tile::side;
      if (feature < width) row[feature] = from_float<T>(sums.values[i][f] / total[i]);
    }
  }
}

}  // namespace

const float* make_rotations(const AttentionSizes& sizes, void* workspace, Stream stream) {
  if (!sizes.rotates) return nullptr;
  auto* const rotations = static_cast<float*>(workspace);
  const std::int64_t count = std::max(sizes.queries, sizes.keys) * (sizes.width / 2);
  launch(attention_rotations_kernel, elementwise_grid(count, 1), {elementwise_threads}, stream, sizes, count,
         rotations);
  return rotations;
}

void attention_forward(DType type, const AttentionOperands& operands, void* y, float* lse, const AttentionSizes& sizes,
                       Stream stream) {
  const float* const rotations = make_rotations(sizes, operands.workspace, stream);
  if (takes_fragments(type, operands, {y}, sizes))
    return attention_forward_in_fragments(type, operands, rotations, y, lse, sizes, stream);
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    with_attention_tile(sizes.width, [&](auto tile) {
      using Tile = typename decltype(tile)::type;
      launch(attention_forward_kernel<T, Tile>, attention_grid<Tile>(sizes.samples, sizes.heads, sizes.queries),
             {Tile::threads}, stream, sizes, static_cast<const T*>(operands.q), static_cast<const T*>(operands.k),
             static_cast<const T*>(operands.v), operands.scalars, operands.spans, rotations, static_cast<T*>(y), lse);
    });
  });
}

}  // namespace trainer::cuda
