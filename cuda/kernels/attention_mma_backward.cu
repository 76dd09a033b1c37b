#include "cuda/kernels/attention_mma.cuh"
#include "cuda/kernels/attention_mma.h"

namespace trainer::cuda {
namespace {

/// Rows that a block has, and rows that it goes through at once.
template <int num_others>
struct BackwardTiles {
  static constexpr int warp_rows = 16, own = mma_warps * warp_rows, other = num_others;
};
template <int width>
using QueryGradientTiles = BackwardTiles<width <= 64 ? 64 : 32>;
using KeyGradientTiles = BackwardTiles<32>;

/// What both kernels read.
template <typename T>
struct FragmentInputs {
  const T *q, *k, *v, *dy;
  const float *lse, *d, *rotations;
  const StepScalars* scalars;
  const std::int32_t* spans;
};

/// Of a query behind the last: a logarithm with which its weights are 0.
struct QueryNumbers {
  float logarithm = INFINITY, d = 0;  // to the base of 2

  template <typename T>
  __device__ __forceinline__ void load(const AttentionSizes& sizes, const FragmentInputs<T>& inputs,
                                       std::int64_t of_head, std::int64_t query) {
    if (query >= sizes.queries) return;
    logarithm = inputs.lse[of_head * sizes.queries + query] * log2_of_e;
    d = inputs.d[of_head * sizes.queries + query];
  }
};

template <typename T, int width>
__global__ void __launch_bounds__(mma_threads)
    attention_query_gradient_mma_kernel(AttentionSizes sizes, FragmentInputs<T> inputs, T* dq) {
  wait_for_earlier_kernels();
  using Tiles = QueryGradientTiles<width>;
  using QueryTile = FragmentTile<T, Tiles::own, width>;
  using KeyTile = FragmentTile<T, Tiles::other, width>;
  constexpr int n = Tiles::other / 8;
  TRAINER_SHARED(FeaturePack<T>, query_packs, QueryTile::count);
  TRAINER_SHARED(FeaturePack<T>, gradient_packs, QueryTile::count);
  TRAINER_SHARED(FeaturePack<T>, key_packs, KeyTile::count);
  TRAINER_SHARED(FeaturePack<T>, value_packs, KeyTile::count);
  const QueryTile queries{query_packs}, gradients{gradient_packs};
  const KeyTile keys{key_packs}, values{value_packs};

  const AttentionPlace of_block = fragment_place(sizes.queries, sizes.heads, Tiles::own, sizes.causal);
  const LanePlace place;
  const int head_width = sizes.width, kv_head = of_block.head / (sizes.heads / sizes.kv_heads);
  const int first = static_cast<int>(of_block.first);
  const int warp_row = static_cast<int>(threadIdx.x) / warp_size * Tiles::warp_rows, warp_first = first + warp_row;
  const std::int64_t of_head = of_block.sample * sizes.heads + of_block.head;
  const PhiloxStream philox = philox_of(sizes, inputs.scalars, of_block.sample);
  const SampleSpans spans(inputs.spans, sizes, of_block.sample);
  const HeadRows<const T> q_rows(inputs.q, sizes.query_features, sizes.queries, of_block.sample,
                                 of_block.head * head_width);
  const HeadRows<const T> dy_rows(inputs.dy, std::int64_t{sizes.heads} * head_width, sizes.queries, of_block.sample,
                                  of_block.head * head_width);
  const HeadRows<const T> k_rows(inputs.k, sizes.key_features, sizes.keys, of_block.sample, kv_head * head_width);
  const HeadRows<const T> v_rows(inputs.v, sizes.key_features, sizes.keys, of_block.sample, kv_head * head_width);

  const KeyRange range = keys_of_block(sizes, spans, first, Tiles::own);
  begin_rows(queries, q_rows, first, head_width, inputs.rotations);
  copy_rows_ahead(gradients, dy_rows, first, head_width);
  copy_rows_ahead(values, v_rows, range.first, head_width);
  end_copies();
  begin_rows(keys, k_rows, range.first, head_width, inputs.rotations);
  end_copies();
  QueryNumbers of_query[2];
  TRAINER_UNROLL
  for (int half = 0; half < 2; ++half) of_query[half].load(sizes, inputs, of_head, warp_first + half * 8 + place.row);

  const float scale = sizes.scale * log2_of_e;
  FragmentSums sums[1][width / 8] = {};
  for (int first_key = range.first; first_key < range.end; first_key += Tiles::other) {
    const PairRange pairs{warp_first, warp_first + Tiles::warp_rows, first_key, first_key + Tiles::other};
    const bool is_seen = !is_hidden(sizes, spans, pairs);
    FragmentSums weight_gradients[1][n] = {};
    wait_for_copies<1>();
    __syncthreads();
    if (is_seen) add_scores<T>(weight_gradients, gradients, warp_row, values, place);
    wait_for_copies<0>();
    __syncthreads();  // the keys are there, and the values have been read
    const int next_key = first_key + Tiles::other;
    if (next_key < range.end) copy_rows_ahead(values, v_rows, next_key, head_width);
    end_copies();
    if (is_seen) {
      FragmentSums scores[1][n] = {};
      add_scores<T>(scores, queries, warp_row, keys, place);
      if (!is_visible_whole(sizes, spans, pairs))
        hide_of_query_rows(scores, sizes, spans, warp_first, first_key, place);
      KeptWeights kept;
      if (sizes.drops) kept = kept_of_query_rows<1, n>(sizes, philox, of_head, warp_first, first_key, place);
      TRAINER_UNROLL
      for (int j = 0; j < n; ++j) {
        TRAINER_UNROLL
        for (int at = 0; at < 4; ++at) {
          float& score = scores[0][j].values[at];
          const QueryNumbers& query = of_query[at / 2];
          const float weight = fast_exp2(score * scale - query.logarithm);
          const float factor = sizes.drops ? kept.factor(j, at, sizes) : 1.0f;
          score = weight * (weight_gradients[0][j].values[at] * factor - query.d);
        }
      }
      add_weighted_rows<T>(sums, scores, keys, place);
    }
    __syncthreads();  // the keys have been read
    if (next_key < range.end) begin_rows(keys, k_rows, next_key, head_width, inputs.rotations);
    end_copies();
  }

  TRAINER_UNROLL
  for (int f = 0; f < width / 8; ++f) {
    TRAINER_UNROLL
    for (int at = 0; at < 4; ++at) sums[0][f].values[at] *= sizes.scale;
  }
  rotate_back(sums, warp_first, sizes.queries, head_width, inputs.rotations, place);
  keep_sums<T>(queries, warp_row, sums, place);
  __syncthreads();
  store_rows(queries, HeadRows<T>(dq, sizes.query_features, sizes.queries, of_block.sample, of_block.head * head_width),
             first, head_width, sizes.rotates);
}

template <typename T, int width>
__global__ void __launch_bounds__(mma_threads)
    attention_key_gradient_mma_kernel(AttentionSizes sizes, FragmentInputs<T> inputs, T* dk, T* dv) {
  wait_for_earlier_kernels();
  using Tiles = KeyGradientTiles;
  using KeyTile = FragmentTile<T, Tiles::own, width>;
  using QueryTile = FragmentTile<T, Tiles::other, width>;
  constexpr int n = Tiles::other / 8;
  TRAINER_SHARED(FeaturePack<T>, key_packs, KeyTile::count);
  TRAINER_SHARED(FeaturePack<T>, value_packs, KeyTile::count);
  TRAINER_SHARED(FeaturePack<T>, query_packs, QueryTile::count);
  TRAINER_SHARED(FeaturePack<T>, gradient_packs, QueryTile::count);
  const KeyTile keys{key_packs}, values{value_packs};
  const QueryTile queries{query_packs}, gradients{gradient_packs};

  const AttentionPlace of_block = fragment_place(sizes.keys, sizes.kv_heads, Tiles::own, false);
  const LanePlace place;
  const int head_width = sizes.width, group = sizes.heads / sizes.kv_heads;
  const int first = static_cast<int>(of_block.first);
  const int warp_row = static_cast<int>(threadIdx.x) / warp_size * Tiles::warp_rows, warp_first = first + warp_row;
  const PhiloxStream philox = philox_of(sizes, inputs.scalars, of_block.sample);
  const SampleSpans spans(inputs.spans, sizes, of_block.sample);
  const HeadRows<const T> k_rows(inputs.k, sizes.key_features, sizes.keys, of_block.sample, of_block.head * head_width);
  const HeadRows<const T> v_rows(inputs.v, sizes.key_features, sizes.keys, of_block.sample, of_block.head * head_width);

  std::int64_t begin_query = 0, end_query = sizes.queries;
  if (sizes.causal) {
    begin_query = first;
    if (sizes.window > 0 && first + Tiles::own - 1 + sizes.window < end_query)
      end_query = first + Tiles::own - 1 + sizes.window;
  }
  spans.cut(first, Tiles::own, sizes, begin_query, end_query);
  const int begin = static_cast<int>(begin_query) / 8 * 8, end = static_cast<int>(end_query);  // as kept_of_key_rows()
  begin_rows(keys, k_rows, first, head_width, inputs.rotations);
  copy_rows_ahead(values, v_rows, first, head_width);
  const auto rows_of = [&](const T* tensor, std::int64_t features, int head) {
    return HeadRows<const T>(tensor, features, sizes.queries, of_block.sample, head * head_width);
  };
  const auto copy_gradients = [&](int head, int first_query) {
    copy_rows_ahead(gradients, rows_of(inputs.dy, std::int64_t{sizes.heads} * head_width, head), first_query,
                    head_width);
  };
  const auto begin_queries = [&](int head, int first_query) {
    begin_rows(queries, rows_of(inputs.q, sizes.query_features, head), first_query, head_width, inputs.rotations);
  };
  int head = of_block.head * group;
  const int end_head = head + group;
  copy_gradients(head, begin);
  end_copies();
  begin_queries(head, begin);
  end_copies();

  const float scale = sizes.scale * log2_of_e;
  FragmentSums key_sums[1][width / 8] = {}, value_sums[1][width / 8] = {};
  for (int first_query = begin; head < end_head;) {
    const std::int64_t of_head = of_block.sample * sizes.heads + head;
    const PairRange pairs{first_query, first_query + Tiles::other, warp_first, warp_first + Tiles::warp_rows};
    const bool is_seen = !is_hidden(sizes, spans, pairs);
    FragmentSums score_gradients[1][n] = {}, weights[1][n] = {};
    wait_for_copies<1>();
    __syncthreads();
    if (is_seen) add_scores<T>(score_gradients, values, warp_row, gradients, place);
    wait_for_copies<0>();
    __syncthreads();
    if (is_seen) {
      add_scores<T>(weights, keys, warp_row, queries, place);
      if (!is_visible_whole(sizes, spans, pairs))
        hide_of_key_rows(weights, sizes, spans, first_query, warp_first, place);
      KeptWeights kept;
      if (sizes.drops) kept = kept_of_key_rows<n>(sizes, philox, of_head, first_query, warp_first, place);
      TRAINER_UNROLL
      for (int j = 0; j < n; ++j) {
        TRAINER_UNROLL
        for (int e = 0; e < 2; ++e) {
          QueryNumbers of_query;
          of_query.load(sizes, inputs, of_head, first_query + place.column + j * 8 + e);
          TRAINER_UNROLL
          for (int half = 0; half < 2; ++half) {
            const int at = 2 * half + e;
            float &weight = weights[0][j].values[at], &gradient = score_gradients[0][j].values[at];
            weight = fast_exp2(weight * scale - of_query.logarithm);
            const float factor = sizes.drops ? kept.factor(j, at, sizes) : 1.0f;
            gradient = weight * (gradient * factor - of_query.d);
            weight *= factor;
          }
        }
      }
      add_weighted_rows<T>(value_sums, weights, gradients, place);
    }
    __syncthreads();  // the queries' gradients have been read
    int next_query = first_query + Tiles::other, next_head = head;
    if (next_query >= end) {
      next_query = begin;
      ++next_head;
    }
    if (next_head < end_head) copy_gradients(next_head, next_query);
    end_copies();
    if (is_seen) add_weighted_rows<T>(key_sums, score_gradients, queries, place);
    __syncthreads();  // the queries have been read
    if (next_head < end_head) begin_queries(next_head, next_query);
    end_copies();
    first_query = next_query;
    head = next_head;
  }

  TRAINER_UNROLL
  for (int f = 0; f < width / 8; ++f) {
    TRAINER_UNROLL
    for (int at = 0; at < 4; ++at) key_sums[0][f].values[at] *= sizes.scale;
  }
  rotate_back(key_sums, warp_first, sizes.keys, head_width, inputs.rotations, place);
  keep_sums<T>(keys, warp_row, key_sums, place);
  keep_sums<T>(values, warp_row, value_sums, place);
  __syncthreads();
  store_rows(keys, HeadRows<T>(dk, sizes.key_features, sizes.keys, of_block.sample, of_block.head * head_width), first,
             head_width, sizes.rotates);
  store_rows(values, HeadRows<T>(dv, sizes.key_features, sizes.keys, of_block.sample, of_block.head * head_width),
             first, head_width, false);
}

}  // namespace

void attention_backward_in_fragments(DType type, const AttentionOperands& operands, const AttentionGradients& gradients,
                                     const float* rotations, const float* d, const AttentionSizes& sizes,
                                     Stream stream) {
  with_fragment_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const FragmentInputs<T> inputs{static_cast<const T*>(operands.q),
                                   static_cast<const T*>(operands.k),
                                   static_cast<const T*>(operands.v),
                                   static_cast<const T*>(gradients.dy),
                                   gradients.lse,
                                   d,
                                   rotations,
                                   operands.scalars,
                                   operands.spans};
    with_fragment_width(sizes.width, [&](auto width) {
      constexpr int tile_width = decltype(width)::value;
      launch(attention_query_gradient_mma_kernel<T, tile_width>,
             grid_of(sizes.samples * sizes.heads * num_blocks(sizes.queries, QueryGradientTiles<tile_width>::own)),
             {mma_threads}, stream, sizes, inputs, static_cast<T*>(gradients.dq));
      launch(attention_key_gradient_mma_kernel<T, tile_width>,
             grid_of(sizes.samples * sizes.kv_heads * num_blocks(sizes.keys, KeyGradientTiles::own)), {mma_threads},
             stream, sizes, inputs, static_cast<T*>(gradients.dk), static_cast<T*>(gradients.dv));
    });
  });
}

}  // namespace trainer::cuda
