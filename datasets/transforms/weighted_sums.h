#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "datasets/transforms/resampled_axis.h"

namespace trainer {

// The two inner loops of a resize: bytes times 16-bit weights, two products at once, which every x86-64 has an
// instruction for that compilers do not find. Elsewhere, and for other numbers of channels, plain loops give the same.

inline std::uint8_t rounded_sum(std::int32_t sum, int precision) {
  const std::int32_t value = sum >> precision;
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

/// Bytes behind a row that resize_rows() may read.
inline constexpr std::int64_t row_slack = 2;

/// Resizes rows[j] to targets[j], (kept, channels).
template <std::size_t num_rows>
void resize_rows_plain(const std::array<const std::uint8_t*, num_rows>& rows,
                       const std::array<std::uint8_t*, num_rows>& targets, std::int64_t channels,
                       const ResampledAxis& columns) {
  const std::int64_t num_taps = columns.num_taps();
  const int precision = columns.precision();
  for (std::int64_t i = 0; i < columns.num_kept(); ++i) {
    const std::int16_t* const weights = columns.weights(i);
    for (std::size_t j = 0; j < num_rows; ++j) {
      const std::uint8_t* const pixels = rows[j] + columns.first(i) * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        std::int32_t sum = 1 << precision >> 1;
        for (std::int64_t tap = 0; tap < num_taps; ++tap) sum += weights[tap] * pixels[tap * channels + c];
        targets[j][i * channels + c] = rounded_sum(sum, precision);
      }
    }
  }
}

/// Sums up bytes begin … end − 1 of rows that lie `stride` apart.
inline void sum_rows_plain(const std::uint8_t* rows, std::int64_t stride, const std::int16_t* weights,
                           std::int64_t num_taps, int precision, std::int64_t begin, std::int64_t end,
                           std::uint8_t* target) {
  for (std::int64_t x = begin; x < end; ++x) {
    std::int32_t sum = 1 << precision >> 1;
    for (std::int64_t tap = 0; tap < num_taps; ++tap) sum += weights[tap] * rows[tap * stride + x];
    target[x] = rounded_sum(sum, precision);
  }
}

#if defined(__SSE2__)

/// Two weights in each of four places.
inline __m128i weight_pair(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof(pair));
  return _mm_set1_epi32(pair);
}
/// A weight, and 0 for a pixel that is not there.
inline __m128i last_weight(const std::int16_t* weight) { return _mm_set1_epi32(static_cast<std::uint16_t>(*weight)); }

template <std::int64_t channels, std::size_t num_rows>
void resize_rows_in_pairs(const std::array<const std::uint8_t*, num_rows>& rows,
                          const std::array<std::uint8_t*, num_rows>& targets, const ResampledAxis& columns) {
  const __m128i zero = _mm_setzero_si128();
  const __m128i half = _mm_set1_epi32(1 << columns.precision() >> 1);
  const __m128i precision = _mm_cvtsi32_si128(columns.precision());
  const std::int64_t num_taps = columns.num_taps(), num_kept = columns.num_kept();
  const std::int32_t* const firsts = columns.firsts().data();
  const std::int16_t* weights = columns.weights(0);
  for (std::int64_t i = 0; i < num_kept; ++i, weights += num_taps) {
    const std::int64_t first = firsts[i] * channels;
    __m128i sums[num_rows];
    for (__m128i& sum : sums) sum = half;
    std::int64_t tap = 0;
    for (; tap + 1 < num_taps; tap += 2) {
      const __m128i pair = weight_pair(weights + tap);
      for (std::size_t j = 0; j < num_rows; ++j) {
        const __m128i pixels = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(rows[j] + first + tap * channels));
        const __m128i both = _mm_unpacklo_epi8(pixels, _mm_srli_epi64(pixels, 8 * channels));
        sums[j] = _mm_add_epi32(sums[j], _mm_madd_epi16(_mm_unpacklo_epi8(both, zero), pair));
      }
    }
    if (tap < num_taps) {
      const __m128i pair = last_weight(weights + tap);
      for (std::size_t j = 0; j < num_rows; ++j) {
        std::int32_t pixel = 0;
        std::memcpy(&pixel, rows[j] + first + tap * channels, sizeof(pixel));
        const __m128i both = _mm_unpacklo_epi8(_mm_cvtsi32_si128(pixel), zero);
        sums[j] = _mm_add_epi32(sums[j], _mm_madd_epi16(_mm_unpacklo_epi8(both, zero), pair));
      }
    }
    for (std::size_t j = 0; j < num_rows; ++j) {
      const __m128i shifted = _mm_sra_epi32(sums[j], precision);
      const __m128i words = _mm_packs_epi32(shifted, shifted);
      const std::int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
      // The fourth byte of three channels is written over by the next pixel.
      if (i + 1 < num_kept) {
        std::memcpy(targets[j] + i * channels, &pixel, sizeof(pixel));
      } else {
        std::memcpy(targets[j] + i * channels, &pixel, channels);
      }
    }
  }
}

inline void sum_rows(const std::uint8_t* rows, std::int64_t stride, const std::int16_t* weights, std::int64_t num_taps,
                     int precision, std::int64_t row_bytes, std::uint8_t* target) {
  constexpr std::int64_t block = 16;
  if (row_bytes < block) return sum_rows_plain(rows, stride, weights, num_taps, precision, 0, row_bytes, target);
  const __m128i zero = _mm_setzero_si128();
  const __m128i half = _mm_set1_epi32(1 << precision >> 1);
  const __m128i shift = _mm_cvtsi32_si128(precision);
  for (std::int64_t x = 0; x < row_bytes; x += block) {
    // The last block begins earlier, so that it ends with the row.
    x = x + block > row_bytes ? row_bytes - block : x;
    __m128i sums[4] = {half, half, half, half};
    const auto add = [&](__m128i a, __m128i b, __m128i pair) {
      const __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
      sums[0] = _mm_add_epi32(sums[0], _mm_madd_epi16(_mm_unpacklo_epi8(low, zero), pair));
      sums[1] = _mm_add_epi32(sums[1], _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), pair));
      sums[2] = _mm_add_epi32(sums[2], _mm_madd_epi16(_mm_unpacklo_epi8(high, zero), pair));
      sums[3] = _mm_add_epi32(sums[3], _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), pair));
    };
    const auto bytes_of = [&](std::int64_t tap) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + tap * stride + x));
    };
    std::int64_t tap = 0;
    for (; tap + 1 < num_taps; tap += 2) add(bytes_of(tap), bytes_of(tap + 1), weight_pair(weights + tap));
    if (tap < num_taps) add(bytes_of(tap), zero, last_weight(weights + tap));
    for (__m128i& sum : sums) sum = _mm_sra_epi32(sum, shift);
    const __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + x), bytes);
  }
}

template <std::size_t num_rows>
void resize_rows(const std::array<const std::uint8_t*, num_rows>& rows,
                 const std::array<std::uint8_t*, num_rows>& targets, std::int64_t channels,
                 const ResampledAxis& columns) {
  if (channels == 3) return resize_rows_in_pairs<3>(rows, targets, columns);
  if (channels == 4) return resize_rows_in_pairs<4>(rows, targets, columns);
  resize_rows_plain(rows, targets, channels, columns);
}

#else

inline void sum_rows(const std::uint8_t* rows, std::int64_t stride, const std::int16_t* weights, std::int64_t num_taps,
                     int precision, std::int64_t row_bytes, std::uint8_t* target) {
  sum_rows_plain(rows, stride, weights, num_taps, precision, 0, row_bytes, target);
}

template <std::size_t num_rows>
void resize_rows(const std::array<const std::uint8_t*, num_rows>& rows,
                 const std::array<std::uint8_t*, num_rows>& targets, std::int64_t channels,
                 const ResampledAxis& columns) {
  resize_rows_plain(rows, targets, channels, columns);
}

#endif

}  // namespace trainer
