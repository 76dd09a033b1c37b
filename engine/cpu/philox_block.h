#pragma once

#include <cstdint>

#include "engine/philox.h"
#include "engine/simd.h"

namespace trainer {

/// Philox blocks that are computed side by side: they fill a vector of 512 bits.
inline constexpr std::int64_t philox_lanes = 16;
/// Words that they hold.
inline constexpr std::int64_t philox_lane_words = 4 * philox_lanes;

/// words[4·i …] = stream.words(block + i) for i in [0, philox_lanes): PhiloxStream::words with its state turned inside
/// out, one array a word, so that it vectorises.
TRAINER_SIMD_INLINE void draw_philox_words(const PhiloxStream& stream, std::uint64_t block, std::uint32_t* words) {
  block += stream.first_block;
  std::uint32_t x0[philox_lanes], x1[philox_lanes], x2[philox_lanes], x3[philox_lanes];
#pragma omp simd
  for (std::int64_t i = 0; i < philox_lanes; ++i) {
    const std::uint64_t counter = block + static_cast<std::uint64_t>(i);
    x0[i] = static_cast<std::uint32_t>(counter);
    x1[i] = static_cast<std::uint32_t>(counter >> 32);
    x2[i] = stream.stream;
    x3[i] = stream.step;
  }
  auto key0 = static_cast<std::uint32_t>(stream.seed);
  auto key1 = static_cast<std::uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (std::int64_t i = 0; i < philox_lanes; ++i) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * x0[i];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * x2[i];
      x0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ x1[i] ^ key0;
      x1[i] = static_cast<std::uint32_t>(product1);
      x2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ x3[i] ^ key1;
      x3[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  for (std::int64_t i = 0; i < philox_lanes; ++i) {
    words[4 * i] = x0[i];
    words[4 * i + 1] = x1[i];
    words[4 * i + 2] = x2[i];
    words[4 * i + 3] = x3[i];
  }
}

}  // namespace trainer
