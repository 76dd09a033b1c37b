#include "engine/cpu/panel_product.h"

#include <algorithm>

#include "engine/simd.h"

namespace trainer {
namespace {

using Vector8 = float __attribute__((vector_size(32), aligned(4), may_alias));
using Vector16 = float __attribute__((vector_size(64), aligned(4), may_alias));

/// Rows that are computed at once: with 16 columns by AVX2 or 64 by AVX-512 the sums fill most of the registers, and
/// there are enough of them to hide what a multiply-add waits for the one before.
constexpr int tile_rows = 6;

/// Vectors of b's and c's row that are computed at once, each at its distance from the first.
template <typename Vector, int count>
struct RowVectors {
  static constexpr std::int64_t width = sizeof(Vector) / sizeof(float);
  std::int64_t at[count];

  explicit RowVectors(std::int64_t panel_stride) {
    for (int v = 0; v < count; ++v) at[v] = v * width / panel_columns * panel_stride + v * width % panel_columns;
  }
};

template <typename Vector, int rows, int vectors, bool by_columns>
TRAINER_SIMD_INLINE void product_tile(const Factor& a, const float* factor, const float* b, std::int64_t b_stride,
                                      float* c, std::int64_t c_stride, std::int64_t depth, bool adds) {
  const RowVectors<Vector, vectors> from(b_stride), to(c_stride);
  Vector sums[rows][vectors] = {};
  const std::int64_t chunk = a.chunk > 0 ? a.chunk : depth;
  for (std::int64_t first = 0; first < depth; first += chunk, factor += a.chunk_stride) {
    const float* column = factor;
    for (std::int64_t k = 0; k < chunk; ++k, b += panel_columns) {
      Vector line[vectors];
      for (int v = 0; v < vectors; ++v) line[v] = *reinterpret_cast<const Vector*>(b + from.at[v]);
      for (int r = 0; r < rows; ++r) {
        const float number = by_columns ? column[r] : factor[r * a.stride + k];
        for (int v = 0; v < vectors; ++v) sums[r][v] += number * line[v];
      }
      if (by_columns) column += a.stride;
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      auto* const result = reinterpret_cast<Vector*>(c + r * panel_columns + to.at[v]);
      *result = adds ? *result + sums[r][v] : sums[r][v];
    }
  }
}

/// All rows of `vectors` vectors of columns.
template <typename Vector, int vectors, bool by_columns>
TRAINER_SIMD_INLINE void product_strip(const Factor& a, const float* b, std::int64_t b_stride, float* c,
                                       std::int64_t c_stride, std::int64_t rows, std::int64_t depth, bool adds) {
  const std::int64_t row_stride = by_columns ? 1 : a.stride;
  std::int64_t row = 0;
  for (; row + tile_rows <= rows; row += tile_rows)
    product_tile<Vector, tile_rows, vectors, by_columns>(a, a.data + row * row_stride, b, b_stride,
                                                         c + row * panel_columns, c_stride, depth, adds);
  const float* const factor = a.data + row * row_stride;
  float* const last = c + row * panel_columns;
  switch (rows - row) {
    case 5:
      return product_tile<Vector, 5, vectors, by_columns>(a, factor, b, b_stride, last, c_stride, depth, adds);
    case 4:
      return product_tile<Vector, 4, vectors, by_columns>(a, factor, b, b_stride, last, c_stride, depth, adds);
    case 3:
      return product_tile<Vector, 3, vectors, by_columns>(a, factor, b, b_stride, last, c_stride, depth, adds);
    case 2:
      return product_tile<Vector, 2, vectors, by_columns>(a, factor, b, b_stride, last, c_stride, depth, adds);
    case 1:
      return product_tile<Vector, 1, vectors, by_columns>(a, factor, b, b_stride, last, c_stride, depth, adds);
    default:
      return;
  }
}

template <bool by_columns>
TRAINER_SIMD_INLINE void narrow_product(const Factor& a, const Panels& b, const Panels& c, std::int64_t rows,
                                        std::int64_t depth, std::int64_t columns, bool adds) {
  for (std::int64_t column = 0; column < columns; column += panel_columns)
    product_strip<Vector8, 2, by_columns>(a, b.panel(column), 0, c.panel(column), 0, rows, depth, adds);
}

template <bool by_columns>
TRAINER_SIMD_INLINE void wide_product(const Factor& a, const Panels& b, const Panels& c, std::int64_t rows,
                                      std::int64_t depth, std::int64_t columns, bool adds) {
  std::int64_t column = 0;
  for (; column + 4 * panel_columns <= columns; column += 4 * panel_columns)
    product_strip<Vector16, 4, by_columns>(a, b.panel(column), b.stride, c.panel(column), c.stride, rows, depth, adds);
  for (; column < columns; column += panel_columns)
    product_strip<Vector16, 1, by_columns>(a, b.panel(column), 0, c.panel(column), 0, rows, depth, adds);
}

TRAINER_SIMD void multiply_by_256_bits(const Factor& a, const Panels& b, const Panels& c, std::int64_t rows,
                                       std::int64_t depth, std::int64_t columns, bool adds) {
  if (a.by_columns) {
    narrow_product<true>(a, b, c, rows, depth, columns, adds);
  } else {
    narrow_product<false>(a, b, c, rows, depth, columns, adds);
  }
}

TRAINER_SIMD void multiply_by_512_bits(const Factor& a, const Panels& b, const Panels& c, std::int64_t rows,
                                       std::int64_t depth, std::int64_t columns, bool adds) {
  if (a.by_columns) {
    wide_product<true>(a, b, c, rows, depth, columns, adds);
  } else {
    wide_product<false>(a, b, c, rows, depth, columns, adds);
  }
}

bool has_512_bits() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
#else
  return false;
#endif
}

}  // namespace

std::int64_t panels_at_once() { return has_512_bits() ? 4 : 1; }

void multiply_panels(const Factor& a, const Panels& b, const Panels& c, std::int64_t rows, std::int64_t depth,
                     std::int64_t columns, bool adds) {
  (has_512_bits() ? multiply_by_512_bits : multiply_by_256_bits)(a, b, c, rows, depth, columns, adds);
}

}  // namespace trainer
