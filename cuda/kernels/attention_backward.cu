#include "cuda/kernels/attention.h"
#include "cuda/kernels/attention_mma.h"
#include "cuda/kernels/attention_tiles.cuh"
#include "cuda/kernels/reduce.cuh"

namespace trainer::cuda {
namespace {

constexpr int dots_at_once = 8;

/// d (samples, heads, queries) = Σ dy · y over a head's features; a warp for each.
template <typename T>
__global__ void __launch_bounds__(warp_size* dots_at_once)
    attention_dots_kernel(AttentionSizes sizes, const T* dy, const T* y, float* d) {
  wait_for_earlier_kernels();
  const std::int64_t row = std::int64_t{blockIdx.x} * dots_at_once + threadIdx.x / warp_size;
  const int lane = static_cast<int>(threadIdx.x % warp_size);
  const bool active = row < sizes.samples * sizes.queries * sizes.heads;  // all threads of a warp together
  float sum = 0;
  if (active) {
    for (int f = lane; f < sizes.width; f += warp_size)
      sum += to_float(dy[row * sizes.width + f]) * to_float(y[row * sizes.width + f]);
  }
  sum = warp_sum(sum);
  if (!active || lane != 0) return;
  const std::int64_t position = row / sizes.heads, head = row - position * sizes.heads;
  const std::int64_t sample = position / sizes.queries, query = position - sample * sizes.queries;
  d[(sample * sizes.heads + head) * sizes.queries + query] = sum;
}

/// What both kernels read.
template <typename T>
struct BackwardInputs {
  const T *q, *k, *v, *dy;
  const float *lse, *d, *rotations;
  const StepScalars* scalars;
  const std::int32_t* spans;
};

/// The weight of a pair, as it was dropped, and the gradient of its score.
struct PairGradient {
  float weight, score_gradient;
};
__device__ __forceinline__ PairGradient pair_gradient(const AttentionSizes& sizes, const SampleSpans& spans,
                                                      const PhiloxStream& philox, std::int64_t of_head,
                                                      std::int64_t query, std::int64_t key, float score,
                                                      float weight_gradient, const float* lse, const float* d) {
  if (!is_visible(sizes, spans, query, key)) return {0.0f, 0.0f};
  const std::int64_t at = of_head * sizes.queries + query;
  const float weight = expf(score - lse[at]);
  const float kept = kept_factor(sizes, philox, of_head, query, key);
  return {weight * kept, weight * (weight_gradient * kept - d[at])};
}

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::threads)
    attention_query_gradient_kernel(AttentionSizes sizes, BackwardInputs<T> inputs, T* dq) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, queries, Tile::floats);
  TRAINER_SHARED(float, gradients, Tile::floats);
  TRAINER_SHARED(float, keys, Tile::floats);
  TRAINER_SHARED(float, values, Tile::floats);
  TRAINER_SHARED(float, score_gradients, Tile::square);
  const AttentionPlace place = attention_place<Tile>(sizes.queries, sizes.heads);
  const int width = sizes.width, kv_head = place.head / (sizes.heads / sizes.kv_heads);
  const std::int64_t of_head = place.sample * sizes.heads + place.head;
  const PhiloxStream philox = philox_of(sizes, inputs.scalars, place.sample);
  const SampleSpans spans(inputs.spans, sizes, place.sample);
  const HeadRows<const T> q_rows(inputs.q, sizes.query_features, sizes.queries, place.sample, place.head * width);
  const HeadRows<const T> dy_rows(inputs.dy, std::int64_t{sizes.heads} * width, sizes.queries, place.sample,
                                  place.head * width);
  const HeadRows<const T> k_rows(inputs.k, sizes.key_features, sizes.keys, place.sample, kv_head * width);
  const HeadRows<const T> v_rows(inputs.v, sizes.key_features, sizes.keys, place.sample, kv_head * width);
  const float* const unrotated = nullptr;
  load_tile<Tile>(queries, q_rows, place.first, width, inputs.rotations, sizes.scale);
  load_tile<Tile>(gradients, dy_rows, place.first, width, unrotated, 1.0f);

  RowsPart<Tile> sums{};
  std::int64_t begin = 0, end = sizes.keys;
  if (sizes.causal) {
    if (sizes.window > 0 && place.first + 1 > sizes.window) begin = place.first + 1 - sizes.window;
    if (place.first + Tile::rows < end) end = place.first + Tile::rows;
  }
  spans.cut(place.first, Tile::rows, sizes, begin, end);
  for (std::int64_t first_key = begin; first_key < end; first_key += Tile::rows) {
    __syncthreads();
    load_tile<Tile>(keys, k_rows, first_key, width, inputs.rotations, 1.0f);
    load_tile<Tile>(values, v_rows, first_key, width, unrotated, 1.0f);
    __syncthreads();
    SquarePart<Tile> scores = tile_product<Tile>(queries, keys, width);
    const SquarePart<Tile> weight_gradients = tile_product<Tile>(gradients, values, width);
    for (int i = 0; i < Tile::per_thread; ++i)
      for (int j = 0; j < Tile::per_thread; ++j)
        scores.values[i][j] =
            pair_gradient(sizes, spans, philox, of_head, place.first + Tile::thread_row() + i * Tile::side,
                          first_key + Tile::thread_column() + j * Tile::side, scores.values[i][j],
                          weight_gradients.values[i][j], inputs.lse, inputs.d)
                .score_gradient;
    store_square<Tile>(score_gradients, scores);
    __syncthreads();
    add_product<Tile>(sums, score_gradients, keys, width);
  }
  __syncthreads();
  store_rows<Tile>(queries, sums, width, sizes.scale);
  __syncthreads();
  store_tile<Tile>(queries, HeadRows<T>(dq, sizes.query_features, sizes.queries, place.sample, place.head * width),
                   place.first, width, inputs.rotations);
}

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::threads)
    attention_key_gradient_kernel(AttentionSizes sizes, BackwardInputs<T> inputs, T* dk, T* dv) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, queries, Tile::floats);
  TRAINER_SHARED(float, gradients, Tile::floats);
  TRAINER_SHARED(float, keys, Tile::floats);
  TRAINER_SHARED(float, values, Tile::floats);
  TRAINER_SHARED(float, weights, Tile::square);
  TRAINER_SHARED(float, score_gradients, Tile::square);
  const AttentionPlace place = attention_place<Tile>(sizes.keys, sizes.kv_heads);
  const int width = sizes.width, group = sizes.heads / sizes.kv_heads;
  const PhiloxStream philox = philox_of(sizes, inputs.scalars, place.sample);
  const SampleSpans spans(inputs.spans, sizes, place.sample);
  const HeadRows<const T> k_rows(inputs.k, sizes.key_features, sizes.keys, place.sample, place.head * width);
  const HeadRows<const T> v_rows(inputs.v, sizes.key_features, sizes.keys, place.sample, place.head * width);
  const float* const unrotated = nullptr;
  load_tile<Tile>(keys, k_rows, place.first, width, inputs.rotations, 1.0f);
  load_tile<Tile>(values, v_rows, place.first, width, unrotated, 1.0f);

  RowsPart<Tile> key_sums{}, value_sums{};
  std::int64_t begin = 0, end = sizes.queries;
  if (sizes.causal) {
    begin = place.first;
    if (sizes.window > 0 && place.first + Tile::rows - 1 + sizes.window < end)
      end = place.first + Tile::rows - 1 + sizes.window;
  }
  spans.cut(place.first, Tile::rows, sizes, begin, end);
  for (int head = place.head * group; head < (place.head + 1) * group; ++head) {
    const std::int64_t of_head = place.sample * sizes.heads + head;
    const HeadRows<const T> q_rows(inputs.q, sizes.query_features, sizes.queries, place.sample, head * width);
    const HeadRows<const T> dy_rows(inputs.dy, std::int64_t{sizes.heads} * width, sizes.queries, place.sample,
                                    head * width);
    for (std::int64_t first_query = begin; first_query < end; first_query += Tile::rows) {
      __syncthreads();
      load_tile<Tile>(queries, q_rows, first_query, width, inputs.rotations, sizes.scale);
      load_tile<Tile>(gradients, dy_rows, first_query, width, unrotated, 1.0f);
      __syncthreads();
      // Rows are keys here, columns queries.
      SquarePart<Tile> scores = tile_product<Tile>(keys, queries, width);
      SquarePart<Tile> weight_gradients = tile_product<Tile>(values, gradients, width);
      for (int i = 0; i < Tile::per_thread; ++i)
        for (int j = 0; j < Tile::per_thread; ++j) {
          const PairGradient pair =
              pair_gradient(sizes, spans, philox, of_head, first_query + Tile::thread_column() + j * Tile::side,
                            place.first + Tile::thread_row() + i * Tile::side, scores.values[i][j],
                            weight_gradients.values[i][j], inputs.lse, inputs.d);
          scores.values[i][j] = pair.weight;
          weight_gradients.values[i][j] = pair.score_gradient;
        }
      store_square<Tile>(weights, scores);
      store_square<Tile>(score_gradients, weight_gradients);
      __syncthreads();
      add_product<Tile>(key_sums, score_gradients, queries, width);
      add_product<Tile>(value_sums, weights, gradients, width);
    }
  }
  __syncthreads();
  store_rows<Tile>(keys, key_sums, width, 1.0f);
  store_rows<Tile>(values, value_sums, width, 1.0f);
  __syncthreads();
  store_tile<Tile>(keys, HeadRows<T>(dk, sizes.key_features, sizes.keys, place.sample, place.head * width), place.first,
                   width, inputs.rotations);
  store_tile<Tile>(values, HeadRows<T>(dv, sizes.key_features, sizes.keys, place.sample, place.head * width),
                   place.first, width, unrotated);
}

}  // namespace

void attention_backward(DType type, const AttentionOperands& operands, const AttentionGradients& gradients,
                        const AttentionSizes& sizes, Stream stream) {
  const float* const rotations = make_rotations(sizes, operands.workspace, stream);
  auto* const d = reinterpret_cast<float*>(static_cast<char*>(operands.workspace) + attention_rotation_bytes(sizes));
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const BackwardInputs<T> inputs{static_cast<const T*>(operands.q),
                                   static_cast<const T*>(operands.k),
                                   static_cast<const T*>(operands.v),
                                   static_cast<const T*>(gradients.dy),
                                   gradients.lse,
                                   d,
                                   rotations,
                                   operands.scalars,
                                   operands.spans};
    launch(attention_dots_kernel<T>, grid_of(num_blocks(sizes.samples * sizes.queries * sizes.heads, dots_at_once)),
           {warp_size * dots_at_once}, stream, sizes, inputs.dy, static_cast<const T*>(gradients.y), d);
    if (takes_fragments(type, operands, {gradients.dy, gradients.dq, gradients.dk, gradients.dv}, sizes))
      return attention_backward_in_fragments(type, operands, gradients, rotations, d, sizes, stream);
    with_attention_tile(sizes.width, [&](auto tile) {
      using Tile = typename decltype(tile)::type;
      launch(attention_query_gradient_kernel<T, Tile>, attention_grid<Tile>(sizes.samples, sizes.heads, sizes.queries),
             {Tile::threads}, stream, sizes, inputs, static_cast<T*>(gradients.dq));
      launch(attention_key_gradient_kernel<T, Tile>, attention_grid<Tile>(sizes.samples, sizes.kv_heads, sizes.keys),
             {Tile::threads}, stream, sizes, inputs, static_cast<T*>(gradients.dk), static_cast<T*>(gradients.dv));
    });
  });
}

}  // namespace trainer::cuda
