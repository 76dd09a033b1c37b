#pragma once
// Tiles of Note [Attention in tiles] in cuda/kernels/attention.h. Threads of a block are (side, side), along x alone: a
// thread has rows thread_row() + i · side of a tile, and of its columns or features thread_column() + j · side.

#include <cstdint>

#include "cuda/kernels/attention.h"
#include "cuda/kernels/element.h"
#include "cuda/kernels/grid.h"
#include "engine/philox.h"

namespace trainer::cuda {

template <int width>
struct AttentionTile {
  static constexpr int most_width = width;
  static constexpr int rows = width <= 64 ? 32 : width <= 128 ? 16 : 8;
  static constexpr int side = width <= 128 ? 16 : 8;
  static constexpr int threads = side * side;
  static constexpr int row_floats = width + 1;  // one more, so that a column lies in different banks
  static constexpr int floats = rows * row_floats;
  static constexpr int square_row = rows + 1;
  static constexpr int square = rows * square_row;
  static constexpr int per_thread = rows / side;  // rows, or columns of a square
  static constexpr int features = width / side;   // of a thread

  static __device__ __forceinline__ int thread_row() { return static_cast<int>(threadIdx.x) / side; }
  static __device__ __forceinline__ int thread_column() { return static_cast<int>(threadIdx.x) % side; }
};

/// Which tile of which head a block has: tiles of a head are neighbours.
struct AttentionPlace {
  std::int64_t sample, first;  // position
  int head;
};
template <typename Tile>
__device__ __forceinline__ AttentionPlace attention_place(std::int64_t positions, int heads) {
  const std::int64_t tiles = (positions + Tile::rows - 1) / Tile::rows;
  const std::int64_t of_head = blockIdx.x / tiles;
  return {of_head / heads, (blockIdx.x - of_head * tiles) * Tile::rows, static_cast<int>(of_head % heads)};
}

/// Rows of a head in a tensor.
template <typename T>
struct HeadRows {
  T* first;               // the head's features at position 0 of the sample
  std::int64_t features;  // from a position to the next
  std::int64_t positions;

  __device__ __forceinline__ HeadRows(T* tensor, std::int64_t row_features, std::int64_t count, std::int64_t sample,
                                      std::int64_t head_begin)
      : first(tensor + sample * count * row_features + head_begin), features(row_features), positions(count) {}
  __device__ __forceinline__ T* at(std::int64_t position) const { return first + position * features; }
};

/// Feature `i` of a row whose pairs are turned by the position's angles; forwards, or back with `sign` −1.
/// `feature(i)` is the row; `rotations` are (positions, width / 2) of cosine and sine, null: none.
template <typename Feature>
__device__ __forceinline__ float rotated(const Feature& feature, int i, int width, const float* rotations,
                                         std::int64_t position, float sign) {
  const float x = feature(i);
  if (rotations == nullptr) return x;
  const int half = width / 2;
  const bool is_first = i < half;
  const float* const rotation = rotations + (position * half + (is_first ? i : i - half)) * 2;
  const float other = feature(is_first ? i + half : i - half);
  return x * rotation[0] + (is_first ? -other : other) * (sign * rotation[1]);
}

/// tile = factor · rows from `begin` on, rotated; 0 behind the last.
template <typename Tile, typename T>
__device__ __forceinline__ void load_tile(float* tile, const HeadRows<const T>& rows, std::int64_t begin, int width,
                                          const float* rotations, float factor) {
  for (int at = static_cast<int>(threadIdx.x); at < Tile::rows * width; at += Tile::threads) {
    const int row = at / width, i = at - row * width;
    const std::int64_t position = begin + row;
    float value = 0;
    if (position < rows.positions) {
      const T* const from = rows.at(position);
      value = rotated([&](int f) { return to_float(from[f]); }, i, width, rotations, position, 1.0f) * factor;
    }
    tile[row * Tile::row_floats + i] = value;
  }
}

/// Rows from `begin` on = the tile, rotated back.
template <typename Tile, typename T>
__device__ __forceinline__ void store_tile(const float* tile, const HeadRows<T>& rows, std::int64_t begin, int width,
                                           const float* rotations) {
  for (int at = static_cast<int>(threadIdx.x); at < Tile::rows * width; at += Tile::threads) {
    const int row = at / width, i = at - row * width;
    const std::int64_t position = begin + row;
    if (position >= rows.positions) continue;
    const float* const from = tile + row * Tile::row_floats;
    rows.at(position)[i] = from_float<T>(rotated([&](int f) { return from[f]; }, i, width, rotations, position, -1.0f));
  }
}

/// Of a thread: numbers of a square of two tiles' rows.
template <typename Tile>
struct SquarePart {
  float values[Tile::per_thread][Tile::per_thread];
};

/// a bᵀ of two tiles.
template <typename Tile>
__device__ __forceinline__ SquarePart<Tile> tile_product(const float* a, const float* b, int width) {
  SquarePart<Tile> sums{};
  const float* const of_a = a + Tile::thread_row() * Tile::row_floats;
  const float* const of_b = b + Tile::thread_column() * Tile::row_floats;
  for (int f = 0; f < width; ++f) {
    for (int i = 0; i < Tile::per_thread; ++i)
      for (int j = 0; j < Tile::per_thread; ++j)
        sums.values[i][j] += of_a[i * Tile::side * Tile::row_floats + f] * of_b[j * Tile::side * Tile::row_floats + f];
  }
  return sums;
}

template <typename Tile>
__device__ __forceinline__ void store_square(float* square, const SquarePart<Tile>& part) {
  for (int i = 0; i < Tile::per_thread; ++i)
    for (int j = 0; j < Tile::per_thread; ++j)
      square[(Tile::thread_row() + i * Tile::side) * Tile::square_row + Tile::thread_column() + j * Tile::side] =
          part.values[i][j];
}

/// Of a thread: features of its rows.
template <typename Tile>
struct RowsPart {
  float values[Tile::per_thread][Tile::features];
};

/// sums += square · tile. What lies behind `width` is added from memory of the tile, and not read.
template <typename Tile>
__device__ __forceinline__ void add_product(RowsPart<Tile>& sums, const float* square, const float* tile, int width) {
  for (int k = 0; k < Tile::rows; ++k) {
    for (int i = 0; i < Tile::per_thread; ++i) {
      const float weight = square[(Tile::thread_row() + i * Tile::side) * Tile::square_row + k];
      for (int f = 0; f < Tile::features; ++f) {
        const int feature = Tile::thread_column() + f * Tile::side;
        if (feature < width) sums.values[i][f] += weight * tile[k * Tile::row_floats + feature];
      }
    }
  }
}

/// tile = factor · the rows.
template <typename Tile>
__device__ __forceinline__ void store_rows(float* tile, const RowsPart<Tile>& part, int width, float factor) {
  for (int i = 0; i < Tile::per_thread; ++i)
    for (int f = 0; f < Tile::features; ++f) {
      const int feature = Tile::thread_column() + f * Tile::side;
      if (feature < width)
        tile[(Tile::thread_row() + i * Tile::side) * Tile::row_floats + feature] = factor * part.values[i][f];
    }
}

/// Spans of a sample, of engine/ops/attention.h; none hide nothing.
struct SampleSpans {
  const std::int32_t* spans;  // null: none

  __device__ __forceinline__ SampleSpans(const std::int32_t* of_all, const AttentionSizes& sizes, std::int64_t sample)
      : spans(of_all == nullptr ? nullptr : of_all + 2 * sample * sizes.queries) {}
  __device__ __forceinline__ bool hides(std::int64_t query, std::int64_t key) const {
    return spans != nullptr && (key < spans[2 * query] || key >= spans[2 * query + 1]);
  }
  /// Cuts [begin, end), of keys, or of queries, that any of `count` positions from `first` on may see, or be seen by.
  __device__ __forceinline__ void cut(std::int64_t first, int count, const AttentionSizes& sizes, std::int64_t& begin,
                                      std::int64_t& end) const {
    if (spans == nullptr) return;
    const std::int64_t last = first + count <= sizes.queries ? first + count - 1 : sizes.queries - 1;
    if (spans[2 * first] > begin) begin = spans[2 * first];
    if (spans[2 * last + 1] < end) end = spans[2 * last + 1];
  }
};

__device__ __forceinline__ bool is_visible(const AttentionSizes& sizes, const SampleSpans& spans, std::int64_t query,
                                           std::int64_t key) {
  if (query >= sizes.queries || key >= sizes.keys || spans.hides(query, key)) return false;
  if (!sizes.causal) return true;
  return key <= query && (sizes.window == 0 || key > query - sizes.window);
}

/// What a weight is multiplied by: 0 where it is dropped.
__device__ __forceinline__ float kept_factor(const AttentionSizes& sizes, const PhiloxStream& philox,
                                             std::int64_t of_head, std::int64_t query, std::int64_t key) {
  if (!sizes.drops) return 1.0f;
  const std::int64_t blocks = (sizes.queries + 3) / 4;
  const auto words = philox.words(static_cast<std::uint64_t>((of_head * sizes.keys + key) * blocks + query / 4));
  const auto place = static_cast<int>(query % 4);
  const std::uint32_t low = place == 0 ? words[0] : words[1], high = place == 2 ? words[2] : words[3];
  return ((place < 2 ? low : high) >> 8) >= sizes.threshold ? sizes.kept_scale : 0.0f;
}

/// Of a sample's weights, whose heads are counted without those of other ranks: these are made up for here.
__device__ __forceinline__ PhiloxStream philox_of(const AttentionSizes& sizes, const StepScalars* scalars,
                                                  std::int64_t sample) {
  if (!sizes.drops) return {};
  const std::int64_t all_heads = sizes.all_heads > 0 ? sizes.all_heads : sizes.heads;
  const std::int64_t heads_before =
      scalars->first_sample * all_heads + sample * (all_heads - sizes.heads) + sizes.first_head;
  return {scalars->seed, sizes.philox_stream, scalars->pass,
          static_cast<std::uint64_t>(heads_before * sizes.keys * ((sizes.queries + 3) / 4))};
}

/// Fills the first part of a workspace; returns it, null where nothing is rotated.
const float* make_rotations(const AttentionSizes& sizes, void* workspace, Stream stream);

/// Calls function(ElementType<AttentionTile<n>>{}) with the least n that holds a head.
template <typename Function>
void with_attention_tile(int width, Function&& function) {
  if (width <= 64) return function(ElementType<AttentionTile<64>>{});
  if (width <= 128) return function(ElementType<AttentionTile<128>>{});
  function(ElementType<AttentionTile<256>>{});
}

template <typename Tile>
Dim3 attention_grid(std::int64_t samples, std::int64_t heads, std::int64_t positions) {
  return grid_of(samples * heads * num_blocks(positions, Tile::rows));
}

}  // namespace trainer::cuda
