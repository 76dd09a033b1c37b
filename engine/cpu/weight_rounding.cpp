#include "engine/cpu/weight_rounding.h"

#include "engine/cpu/philox_block.h"
#include "engine/stochastic_rounding.h"

namespace trainer {

TRAINER_SIMD void round_weights(PhiloxStream stream, std::int64_t first, const float* from, BFloat16* to,
                                std::int64_t count) {
  constexpr std::int64_t drawn = 2 * philox_lane_words;  // elements
  for (std::int64_t at = 0; at < count; at += drawn) {
    std::uint32_t words[philox_lane_words];
    draw_philox_words(stream, static_cast<std::uint64_t>(first + at) / rounding_elements, words);
    const std::int64_t end = count - at < drawn ? count - at : drawn;
#pragma omp simd
    for (std::int64_t i = 0; i < end; ++i) {
      const std::uint32_t random = (words[i / 2] >> (i % 2 * 16)) & 0xFFFFU;
      to[at + i].bits = round_stochastically(from[at + i], random);
    }
  }
}

}  // namespace trainer
