#pragma once
// Tiles and products of Note [Attention in fragments] in cuda/kernels/attention_mma.h. Threads of a block are along x.

#include <cstdint>

#include "cuda/kernels/attention_mma.h"
#include "cuda/kernels/attention_tiles.cuh"
#include "cuda/launch/tensor_cores.h"

namespace trainer::cuda {

inline constexpr int mma_warps = 4, mma_threads = mma_warps * warp_size;
inline constexpr float log2_of_e = 1.44269504f;

/// Eight features, 16 bytes.
template <typename T>
using FeaturePack = Pack<T, 8>;

/// rows × width features in shared memory. Eight rows' packs of one place lie in different banks.
template <typename T, int num_rows, int width>
struct FragmentTile {
  static constexpr int rows = num_rows, row_packs = width / 8, count = rows * row_packs;

  FeaturePack<T>* packs;

  __device__ __forceinline__ T* at(int row, int pack) const {
    const int turn = row_packs == 4 ? row >> 1 & 3 : row & 7;
    return packs[row * row_packs + (pack ^ turn)].values;
  }
};

/// Which pack of a head's features a pack of a tile's row is; −1: zeros. `halves`: the second half of the features
/// begins at the middle of the row.
template <int row_packs>
__device__ __forceinline__ int source_pack(int pack, int width, bool halves) {
  if (!halves) return pack < width / 8 ? pack : -1;
  const int half = width / 16, second = pack < row_packs / 2 ? 0 : 1;
  const int place = pack - second * (row_packs / 2);
  return place < half ? place + second * half : -1;
}

/// Starts to copy rows from `begin` on: those behind the last are zeros.
template <typename Tile, typename T>
__device__ __forceinline__ void copy_rows_ahead(const Tile& tile, const HeadRows<const T>& rows, int begin, int width) {
  const int thread = computed_anew(static_cast<int>(threadIdx.x));
  TRAINER_UNROLL
  for (int i = 0; i < Tile::count / mma_threads; ++i) {
    const int at = thread + i * mma_threads, row = at / Tile::row_packs, pack = at % Tile::row_packs;
    const bool is_there = pack * 8 < width && begin + row < rows.positions;
    copy_ahead(tile.at(row, pack), is_there ? rows.at(begin + row) + pack * 8 : rows.first, is_there);
  }
}

/// The same rotated, at once, as `halves` of source_pack() has it.
template <typename Tile, typename T>
__device__ __forceinline__ void load_rotated_rows(const Tile& tile, const HeadRows<const T>& rows, int begin, int width,
                                                  const float* rotations) {
  constexpr int half_packs = Tile::row_packs / 2;
  const int thread = computed_anew(static_cast<int>(threadIdx.x)), half = width / 2;
  for (int at = thread; at < Tile::count / 2; at = computed_anew(at + mma_threads)) {
    const int row = at / half_packs, pack = at % half_packs;
    FeaturePack<T> first, second;
    if (pack * 8 < half && begin + row < rows.positions) {
      const T* const from = rows.at(begin + row) + pack * 8;
      first = load_pack<8>(from);
      second = load_pack<8>(from + half);
      const Pack<float, 16> angles = load_pack<16>(rotations + (std::int64_t{begin + row} * half + pack * 8) * 2);
      TRAINER_UNROLL
      for (int f = 0; f < 8; ++f) {
        const float x = to_float(first.values[f]), y = to_float(second.values[f]);
        const float cosine = angles.values[2 * f], sine = angles.values[2 * f + 1];
        first.values[f] = from_float<T>(x * cosine - y * sine);
        second.values[f] = from_float<T>(y * cosine + x * sine);
      }
    } else {
      TRAINER_UNROLL
      for (int f = 0; f < 8; ++f) first.values[f] = second.values[f] = from_float<T>(0.0f);
    }
    store_shared_pack(tile.at(row, pack), first);
    store_shared_pack(tile.at(row, pack + half_packs), second);
  }
}

/// Of q and k: rotated at once, or copied ahead where `rotations` is null.
template <typename Tile, typename T>
__device__ __forceinline__ void begin_rows(const Tile& tile, const HeadRows<const T>& rows, int begin, int width,
                                           const float* rotations) {
  if (rotations != nullptr) {
    load_rotated_rows(tile, rows, begin, width, rotations);
  } else {
    copy_rows_ahead(tile, rows, begin, width);
  }
}

/// Rows from `begin` on = the tile.
template <typename Tile, typename T>
__device__ __forceinline__ void store_rows(const Tile& tile, const HeadRows<T>& rows, int begin, int width,
                                           bool halves) {
  TRAINER_UNROLL
  for (int i = 0; i < Tile::count / mma_threads; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * mma_threads;
    const int row = at / Tile::row_packs, pack = at % Tile::row_packs;
    const int source = source_pack<Tile::row_packs>(pack, width, halves);
    if (source < 0 || begin + row >= rows.positions) continue;
    store_pack(rows.at(begin + row) + source * 8, load_pack<8>(tile.at(row, pack)));
  }
}

/// Where a lane's part of sums lies: rows row and row + 8, columns column and column + 1.
struct LanePlace {
  int lane, row, column;

  __device__ __forceinline__ LanePlace()
      : lane(static_cast<int>(threadIdx.x) % warp_size), row(lane / 4), column(lane % 4 * 2) {}
};

/// sums += a · bᵀ over the features: rows of `a` from first_row on, 16 m of them, and all rows of `b`.
template <typename T, int m, typename A, typename B>
__device__ __forceinline__ void add_scores(FragmentSums (&sums)[m][B::rows / 8], const A& a, int first_row, const B& b,
                                           const LanePlace& place) {
  constexpr int n = B::rows / 16;
  const int lane = computed_anew(place.lane), in_matrix = lane % 8, low = lane / 8 % 2, high = lane / 16;
  TRAINER_UNROLL
  for (int k = 0; k < A::row_packs; k += 2) {
    Fragment of_a[m], of_b[n];
    const void *a_rows[m], *b_rows[n];
    TRAINER_UNROLL
    for (int i = 0; i < m; ++i) a_rows[i] = a.at(first_row + i * 16 + low * 8 + in_matrix, k + high);
    TRAINER_UNROLL
    for (int j = 0; j < n; ++j) b_rows[j] = b.at(j * 16 + high * 8 + in_matrix, k + low);
    load_fragments(of_a, a_rows);
    load_fragments(of_b, b_rows);
    multiply_add<T>(sums, of_a, of_b);
  }
}

/// sums += weights · tile, whose rows are the weights' columns. The weights are rounded.
template <typename T, int m, int num_weights, typename Tile>
__device__ __forceinline__ void add_weighted_rows(FragmentSums (&sums)[m][Tile::row_packs],
                                                  const FragmentSums (&weights)[m][num_weights], const Tile& tile,
                                                  const LanePlace& place) {
  static_assert(num_weights * 8 == Tile::rows);
  constexpr int at_once = Tile::row_packs / 2 < 4 ? Tile::row_packs / 2 : 4;
  const int lane = computed_anew(place.lane), in_matrix = lane % 8, low = lane / 8 % 2, high = lane / 16;
  TRAINER_UNROLL
  for (int k = 0; k < num_weights; k += 2) {
    Fragment of_weights[m];
    TRAINER_UNROLL
    for (int i = 0; i < m; ++i) TRAINER_UNROLL
    for (int word = 0; word < 4; ++word) {
      const float* const pair = weights[i][k + word / 2].values + word % 2 * 2;
      of_weights[i].words[word] = pair_of<T>(pair[0], pair[1]);
    }
    TRAINER_UNROLL
    for (int first = 0; first < Tile::row_packs; first += 2 * at_once) {
      Fragment of_tile[at_once];
      const void* rows[at_once];
      TRAINER_UNROLL
      for (int j = 0; j < at_once; ++j) rows[j] = tile.at(k * 8 + low * 8 + in_matrix, first + 2 * j + high);
      load_transposed_fragments(of_tile, rows);
      FragmentSums part[m][2 * at_once];
      TRAINER_UNROLL
      for (int i = 0; i < m; ++i) TRAINER_UNROLL
      for (int j = 0; j < 2 * at_once; ++j) part[i][j] = sums[i][first + j];
      multiply_add<T>(part, of_weights, of_tile);
      TRAINER_UNROLL
      for (int i = 0; i < m; ++i) TRAINER_UNROLL
      for (int j = 0; j < 2 * at_once; ++j) sums[i][first + j] = part[i][j];
    }
  }
}

/// The warp's rows of the tile = sums, rounded.
template <typename T, int m, typename Tile>
__device__ __forceinline__ void keep_sums(const Tile& tile, int first_row,
                                          const FragmentSums (&sums)[m][Tile::row_packs], const LanePlace& place) {
  using Pair = Pack<T, 2>;
  TRAINER_UNROLL
  for (int i = 0; i < m; ++i) TRAINER_UNROLL
  for (int f = 0; f < Tile::row_packs; ++f) TRAINER_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float* const pair = sums[i][f].values + 2 * half;
    store_shared_pack(tile.at(first_row + i * 16 + half * 8 + place.row, f) + place.column,
                      __builtin_bit_cast(Pair, pair_of<T>(pair[0], pair[1])));
  }
}

/// sums of rows from `begin` on = these, rotated back.
template <int num_packs>
__device__ __forceinline__ void rotate_back(FragmentSums (&sums)[1][num_packs], std::int64_t begin,
                                            std::int64_t positions, int width, const float* rotations,
                                            const LanePlace& place) {
  if (rotations == nullptr) return;
  TRAINER_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t position = begin + half * 8 + place.row;
    if (position >= positions) continue;
    const float* const of_position = rotations + position * width;
    TRAINER_UNROLL
    for (int f = 0; f < num_packs / 2; ++f) {
      const int pair = f * 8 + place.column;
      if (pair >= width / 2) continue;
      const Pack<float, 4> angles = load_pack<4>(of_position + 2 * pair);
      TRAINER_UNROLL
      for (int e = 0; e < 2; ++e) {
        float &x = sums[0][f].values[2 * half + e], &y = sums[0][f + num_packs / 2].values[2 * half + e];
        const float cosine = angles.values[2 * e], sine = angles.values[2 * e + 1], before = x;
        x = before * cosine + y * sine;
        y = y * cosine - before * sine;
      }
    }
  }
}

/// Queries and keys, both from the first to the one behind the last.
struct PairRange {
  std::int64_t first_query, end_query, first_key, end_key;
};
/// What spans, which come one after the other, leave of these queries' keys: all of them see those from the last one's
/// first on to the first one's end; none sees keys before the first one's first, or from the last one's end on.
struct SpansOfRange {
  std::int32_t first, end, last_first, last_end;

  __device__ __forceinline__ SpansOfRange(const AttentionSizes& sizes, const SampleSpans& spans,
                                          const PairRange& pairs) {
    const std::int64_t end_query = pairs.end_query < sizes.queries ? pairs.end_query : sizes.queries;
    first = spans.spans[2 * pairs.first_query];
    end = spans.spans[2 * pairs.first_query + 1];
    last_first = spans.spans[2 * end_query - 2];
    last_end = spans.spans[2 * end_query - 1];
  }
};
/// Whether none of these pairs is visible; false where that takes longer to find out.
__device__ __forceinline__ bool is_hidden(const AttentionSizes& sizes, const SampleSpans& spans,
                                          const PairRange& pairs) {
  if (pairs.first_query >= sizes.queries || pairs.first_key >= sizes.keys) return true;
  if (spans.spans != nullptr) {
    const SpansOfRange of_range(sizes, spans, pairs);
    if (pairs.first_key >= of_range.last_end || pairs.end_key <= of_range.first) return true;
  }
  if (!sizes.causal) return false;
  return pairs.first_key >= pairs.end_query ||
         (sizes.window > 0 && pairs.end_key <= pairs.first_query + 1 - sizes.window);
}
/// Whether all are, but for queries behind the last. They are not hidden.
__device__ __forceinline__ bool is_visible_whole(const AttentionSizes& sizes, const SampleSpans& spans,
                                                 const PairRange& pairs) {
  if (pairs.end_key > sizes.keys) return false;
  if (spans.spans != nullptr) {
    const SpansOfRange of_range(sizes, spans, pairs);
    if (pairs.first_key < of_range.last_first || pairs.end_key > of_range.end) return false;
  }
  if (!sizes.causal) return true;
  return pairs.end_key <= pairs.first_query + 1 &&
         (sizes.window == 0 || pairs.first_key > pairs.end_query - 1 - sizes.window);
}

/// The keys that a query sees, from the first to the one behind the last.
struct VisibleKeys {
  int first, end;

  __device__ __forceinline__ VisibleKeys(const AttentionSizes& sizes, const SampleSpans& spans, int query)
      : first(0), end(static_cast<int>(sizes.keys)) {
    if (spans.spans != nullptr && query < sizes.queries) {
      first = spans.spans[2 * query];
      end = spans.spans[2 * query + 1];
    }
    if (!sizes.causal) return;
    if (query + 1 < end) end = query + 1;
    if (sizes.window > 0 && query + 1 - sizes.window > first) first = query + 1 - static_cast<int>(sizes.window);
  }
  __device__ __forceinline__ bool have(int key) const { return key >= first && key < end; }
};

/// Scores of pairs that are not visible = −∞, where rows are queries and columns keys.
template <int m, int n>
__device__ __forceinline__ void hide_of_query_rows(FragmentSums (&scores)[m][n], const AttentionSizes& sizes,
                                                   const SampleSpans& spans, int first_query, int first_key,
                                                   const LanePlace& place) {
  TRAINER_UNROLL
  for (int i = 0; i < m; ++i) {
    TRAINER_UNROLL
    for (int half = 0; half < 2; ++half) {
      const VisibleKeys visible(sizes, spans, first_query + i * 16 + half * 8 + place.row);
      TRAINER_UNROLL
      for (int j = 0; j < n; ++j) {
        TRAINER_UNROLL
        for (int e = 0; e < 2; ++e)
          if (!visible.have(first_key + place.column + j * 8 + e)) scores[i][j].values[2 * half + e] = -INFINITY;
      }
    }
  }
}
/// The same where rows are keys and columns queries.
template <int n>
__device__ __forceinline__ void hide_of_key_rows(FragmentSums (&scores)[1][n], const AttentionSizes& sizes,
                                                 const SampleSpans& spans, int first_query, int first_key,
                                                 const LanePlace& place) {
  TRAINER_UNROLL
  for (int j = 0; j < n; ++j) {
    TRAINER_UNROLL
    for (int e = 0; e < 2; ++e) {
      const VisibleKeys visible(sizes, spans, first_query + place.column + j * 8 + e);
      TRAINER_UNROLL
      for (int half = 0; half < 2; ++half)
        if (!visible.have(first_key + half * 8 + place.row)) scores[0][j].values[2 * half + e] = -INFINITY;
    }
  }
}

struct KeyRange {
  int first, end;
};
/// Keys that any of `count` queries from `first_query` on may see.
__device__ __forceinline__ KeyRange keys_of_block(const AttentionSizes& sizes, const SampleSpans& spans,
                                                  std::int64_t first_query, int count) {
  std::int64_t begin = 0, end = sizes.keys;
  if (sizes.causal) {
    if (sizes.window > 0 && first_query + 1 > sizes.window) begin = first_query + 1 - sizes.window;
    if (first_query + count < end) end = first_query + count;
  }
  spans.cut(first_query, count, sizes, begin, end);
  return {static_cast<int>(begin), static_cast<int>(end)};
}

/// Which of a lane's weights are kept: a bit for each of the four of each product, in their order.
struct KeptWeights {
  std::uint32_t bits = 0;

  __device__ __forceinline__ void add(int product, int at, std::uint32_t word, const AttentionSizes& sizes) {
    if ((word >> 8) >= sizes.threshold) bits |= 1u << (4 * product + at);
  }
  /// What the weight is multiplied by.
  __device__ __forceinline__ float factor(int product, int at, const AttentionSizes& sizes) const {
    return (bits >> (4 * product + at) & 1u) != 0 ? sizes.kept_scale : 0.0f;
  }
};

/// Of m by n products whose rows are queries, from first_query on, a multiple of 8, and whose columns are keys. The
/// loop over them stays one, for the sake of registers.
template <int m, int n>
__device__ __forceinline__ KeptWeights kept_of_query_rows(const AttentionSizes& sizes, const PhiloxStream& philox,
                                                          std::int64_t of_head, std::int64_t first_query,
                                                          std::int64_t first_key, const LanePlace& place) {
  static_assert(4 * m * n <= 32);
  KeptWeights kept;
  // Of the four lanes that have four neighbouring queries, one draws for each of their key and half.
  const int turn = place.row % 4;
  const bool odd = turn % 2 != 0, late = turn >= 2;
  for (int product = 0; product < m * n; product = computed_anew(product + 1)) {
    const std::int64_t key = first_key + product % n * 8 + place.column + turn % 2;
    const std::int64_t block = first_query / 4 + product / n * 4 + turn / 2 * 2 + place.row / 4;
    const auto words =
        philox.words(static_cast<std::uint64_t>((of_head * sizes.keys + key) * ((sizes.queries + 3) / 4) + block));
    std::uint32_t w[4] = {words[0], words[1], words[2], words[3]};
    // A transposition of four by four words.
    TRAINER_UNROLL
    for (int i = 0; i < 4; i += 2) {
      const std::uint32_t from = shuffle_xor(odd ? w[i] : w[i + 1], 4);
      (odd ? w[i] : w[i + 1]) = from;
    }
    TRAINER_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t from = shuffle_xor(late ? w[i] : w[i + 2], 8);
      (late ? w[i] : w[i + 2]) = from;
    }
    TRAINER_UNROLL
    for (int at = 0; at < 4; ++at) kept.add(product, at, w[at], sizes);
  }
  return kept;
}

/// Of n products whose rows are keys and whose columns are queries, from first_query on, a multiple of 4.
template <int n>
__device__ __forceinline__ KeptWeights kept_of_key_rows(const AttentionSizes& sizes, const PhiloxStream& philox,
                                                        std::int64_t of_head, std::int64_t first_query,
                                                        std::int64_t first_key, const LanePlace& place) {
  static_assert(4 * n <= 32);
  KeptWeights kept;
  // Of the two lanes that have four neighbouring queries, each draws for one key.
  const bool odd = place.column % 4 != 0;
  const std::int64_t key = first_key + place.row + (odd ? 8 : 0);
  for (int product = 0; product < n; product = computed_anew(product + 1)) {
    const std::int64_t block = first_query / 4 + product * 2 + place.column / 4;
    const auto words =
        philox.words(static_cast<std::uint64_t>((of_head * sizes.keys + key) * ((sizes.queries + 3) / 4) + block));
    TRAINER_UNROLL
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t own = odd ? words[2 + e] : words[e];
      const std::uint32_t other = shuffle_xor(odd ? words[e] : words[2 + e], 1);
      kept.add(product, e, odd ? other : own, sizes);
      kept.add(product, 2 + e, odd ? own : other, sizes);
    }
  }
  return kept;
}

/// Which rows of which head a block has: of causal attention those with the most keys or queries first.
__device__ __forceinline__ AttentionPlace fragment_place(std::int64_t positions, int heads, int rows,
                                                         bool from_the_last) {
  const std::int64_t tiles = (positions + rows - 1) / rows, of_head = blockIdx.x / tiles;
  const std::int64_t tile = blockIdx.x - of_head * tiles;
  return {of_head / heads, (from_the_last ? tiles - 1 - tile : tile) * rows, static_cast<int>(of_head % heads)};
}

/// Calls function(std::integral_constant<int, n>{}) with the width of the tile that holds a head.
template <typename Function>
void with_fragment_width(int width, Function&& function) {
  if (width <= 32) return function(std::integral_constant<int, 32>{});
  if (width <= 64) return function(std::integral_constant<int, 64>{});
  function(std::integral_constant<int, 128>{});
}

/// Calls function(ElementType<T>{}) with half or bfloat16.
template <typename Function>
void with_fragment_type(DType type, Function&& function) {
  if (type == DType::f16) return function(ElementType<half>{});
  function(ElementType<bfloat16>{});
}

}  // namespace trainer::cuda
