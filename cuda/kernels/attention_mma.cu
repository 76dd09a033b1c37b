#include "cuda/kernels/attention_mma.h"

#include "cuda/kernels/attention_mma.cuh"

namespace trainer::cuda {
namespace {

struct ForwardTiles {
  static constexpr int warp_queries = 32, queries = mma_warps * warp_queries, keys = 32;
  static constexpr int m = warp_queries / 16;
};

__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, shuffle_xor(value, 1));
  return fmaxf(value, shuffle_xor(value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}

/// Of a lane's rows, 2 i and 2 i + 1 of its sums i.
template <int m>
struct SoftmaxLines {
  float largest[2 * m], total[2 * m];  // scores; weights of this lane

  __device__ __forceinline__ SoftmaxLines() {
    TRAINER_UNROLL
    for (int line = 0; line < 2 * m; ++line) {
      largest[line] = -INFINITY;
      total[line] = 0;
    }
  }

  /// scores = weights, 2^(scale · score) by the largest so far; `sums` are of the same.
  template <int n, int num_packs>
  __device__ __forceinline__ void add(FragmentSums (&scores)[m][n], FragmentSums (&sums)[m][num_packs], float scale) {
    TRAINER_UNROLL
    for (int i = 0; i < m; ++i) {
      TRAINER_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int line = 2 * i + half;
        float highest = largest[line];
        TRAINER_UNROLL
        for (int j = 0; j < n; ++j)
          highest = fmaxf(highest, fmaxf(scores[i][j].values[2 * half], scores[i][j].values[2 * half + 1]));
        highest = quad_max(highest);
        const float shift = highest == -INFINITY ? 0.0f : highest * scale;  // none is visible yet
        const float factor = fast_exp2(largest[line] * scale - shift);
        largest[line] = highest;
        float sum = 0;
        TRAINER_UNROLL
        for (int j = 0; j < n; ++j) {
          TRAINER_UNROLL
          for (int e = 0; e < 2; ++e) {
            float& score = scores[i][j].values[2 * half + e];
            score = fast_exp2(score * scale - shift);
            sum += score;
          }
        }
        total[line] = total[line] * factor + sum;
        TRAINER_UNROLL
        for (int f = 0; f < num_packs; ++f) {
          sums[i][f].values[2 * half] *= factor;
          sums[i][f].values[2 * half + 1] *= factor;
        }
      }
    }
  }
};

template <typename T, int width>
__global__ void __launch_bounds__(mma_threads)
    attention_forward_mma_kernel(AttentionSizes sizes, const T* q, const T* k, const T* v, const StepScalars* scalars,
                                 const std::int32_t* spans, const float* rotations, T* y, float* lse) {
  wait_for_earlier_kernels();
  using Tiles = ForwardTiles;
  using QueryTile = FragmentTile<T, Tiles::queries, width>;
  using KeyTile = FragmentTile<T, Tiles::keys, width>;
  constexpr int m = Tiles::m, n = Tiles::keys / 8;
  TRAINER_SHARED(FeaturePack<T>, query_packs, QueryTile::count);
  TRAINER_SHARED(FeaturePack<T>, key_packs, KeyTile::count);
  TRAINER_SHARED(FeaturePack<T>, value_packs, KeyTile::count);
  const QueryTile queries{query_packs};
  const KeyTile keys{key_packs}, values{value_packs};

  const AttentionPlace of_block = fragment_place(sizes.queries, sizes.heads, Tiles::queries, sizes.causal);
  const LanePlace place;
  const int head_width = sizes.width, kv_head = of_block.head / (sizes.heads / sizes.kv_heads);
  const int first = static_cast<int>(of_block.first);
  const int warp_row = static_cast<int>(threadIdx.x) / warp_size * Tiles::warp_queries, warp_first = first + warp_row;
  const std::int64_t of_head = of_block.sample * sizes.heads + of_block.head;
  const PhiloxStream philox = philox_of(sizes, scalars, of_block.sample);
  const SampleSpans sample_spans(spans, sizes, of_block.sample);
  const HeadRows<const T> q_rows(q, sizes.query_features, sizes.queries, of_block.sample, of_block.head * head_width);
  const HeadRows<const T> k_rows(k, sizes.key_features, sizes.keys, of_block.sample, kv_head * head_width);
  const HeadRows<const T> v_rows(v, sizes.key_features, sizes.keys, of_block.sample, kv_head * head_width);

  const KeyRange range = keys_of_block(sizes, sample_spans, first, Tiles::queries);
  begin_rows(queries, q_rows, first, head_width, rotations);
  begin_rows(keys, k_rows, range.first, head_width, rotations);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();

  FragmentSums sums[m][width / 8] = {};
  SoftmaxLines<m> softmax;
  for (int first_key = range.first; first_key < range.end; first_key += Tiles::keys) {
    copy_rows_ahead(values, v_rows, first_key, head_width);
    end_copies();
    const PairRange pairs{warp_first, warp_first + Tiles::warp_queries, first_key, first_key + Tiles::keys};
    const bool is_seen = !is_hidden(sizes, sample_spans, pairs);  // by this warp
    FragmentSums scores[m][n] = {};
    if (is_seen) {
      add_scores<T>(scores, queries, warp_row, keys, place);
      if (!is_visible_whole(sizes, sample_spans, pairs))
        hide_of_query_rows(scores, sizes, sample_spans, warp_first, first_key, place);
      softmax.add(scores, sums, sizes.scale * log2_of_e);
      if (sizes.drops) {
        const KeptWeights kept = kept_of_query_rows<m, n>(sizes, philox, of_head, warp_first, first_key, place);
        TRAINER_UNROLL
        for (int i = 0; i < m; ++i) {
          TRAINER_UNROLL
          for (int j = 0; j < n; ++j) {
            TRAINER_UNROLL
            for (int at = 0; at < 4; ++at) scores[i][j].values[at] *= kept.factor(i * n + j, at, sizes);
          }
        }
      }
    }
    wait_for_copies<0>();
    __syncthreads();  // the values are there, and the keys have been read
    const int next_key = first_key + Tiles::keys;
    if (next_key < range.end && rotations == nullptr) copy_rows_ahead(keys, k_rows, next_key, head_width);
    end_copies();
    if (is_seen) add_weighted_rows<T>(sums, scores, values, place);
    if (next_key < range.end && rotations != nullptr)
      load_rotated_rows(keys, k_rows, next_key, head_width, rotations);  // here fewer registers are in use
    wait_for_copies<0>();
    __syncthreads();
  }

  TRAINER_UNROLL
  for (int i = 0; i < m; ++i) {
    TRAINER_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float total = quad_sum(softmax.total[2 * i + half]);
      const float factor = total > 0 ? 1 / total : 0.0f;
      TRAINER_UNROLL
      for (int f = 0; f < width / 8; ++f) {
        sums[i][f].values[2 * half] *= factor;
        sums[i][f].values[2 * half + 1] *= factor;
      }
      const std::int64_t query = warp_first + i * 16 + half * 8 + place.row;
      if (place.column == 0 && query < sizes.queries)
        lse[of_head * sizes.queries + query] = softmax.largest[2 * i + half] * sizes.scale + logf(total);
    }
  }
  // The warp's own rows, which no other has read.
  keep_sums<T>(queries, warp_row, sums, place);
  __syncthreads();
  store_rows(queries,
             HeadRows<T>(y, std::int64_t{sizes.heads} * head_width, sizes.queries, of_block.sample,
                         of_block.head * head_width),
             first, head_width, false);
}

}  // namespace

bool takes_fragments(DType type, const AttentionOperands& operands, std::initializer_list<const void*> others,
                     const AttentionSizes& sizes) {
  constexpr std::int64_t pack = 8, most_positions = std::int64_t{1} << 30;
  const auto is_aligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
  for (const void* const other : others)
    if (!is_aligned(other)) return false;
  return has_tensor_cores() && (type == DType::f16 || type == DType::bf16) && sizes.width <= 128 &&
         sizes.width % (sizes.rotates ? 2 * pack : pack) == 0 && sizes.query_features % pack == 0 &&
         sizes.key_features % pack == 0 && sizes.queries < most_positions && sizes.keys < most_positions &&
         is_aligned(operands.q) && is_aligned(operands.k) && is_aligned(operands.v);
}

void attention_forward_in_fragments(DType type, const AttentionOperands& operands, const float* rotations, void* y,
                                    float* lse, const AttentionSizes& sizes, Stream stream) {
  with_fragment_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    with_fragment_width(sizes.width, [&](auto width) {
      const std::int64_t tiles = num_blocks(sizes.queries, ForwardTiles::queries);
      launch(attention_forward_mma_kernel<T, decltype(width)::value>, grid_of(sizes.samples * sizes.heads * tiles),
             {mma_threads}, stream, sizes, static_cast<const T*>(operands.q), static_cast<const T*>(operands.k),
             static_cast<const T*>(operands.v), operands.scalars, operands.spans, rotations, static_cast<T*>(y), lse);
    });
  });
}

}  // namespace trainer::cuda
