#include "engine/cpu/attention_weights.h"

#include <algorithm>
#include <limits>

#include "engine/cpu/philox_block.h"
#include "engine/cpu/vector_math.h"
#include "engine/simd.h"

namespace trainer {
namespace {

constexpr std::int64_t lanes = panel_columns;

/// Lanes below `first` and from `end` on become −∞.
TRAINER_SIMD void hide_lanes(float* scores, std::int64_t first, std::int64_t end) {
  const auto from = static_cast<std::int32_t>(std::clamp<std::int64_t>(first, 0, lanes));
  const auto to = static_cast<std::int32_t>(std::clamp<std::int64_t>(end, 0, lanes));
#pragma omp simd
  for (std::int32_t i = 0; i < lanes; ++i)
    scores[i] = i >= from && i < to ? scores[i] : -std::numeric_limits<float>::infinity();
}

TRAINER_SIMD void raise_largest(const float* scores, std::int64_t num_keys, float* largest) {
  std::int64_t key = 0;
  for (; key + 4 <= num_keys; key += 4, scores += 4 * lanes) {
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) {
      const float a = scores[i] > scores[lanes + i] ? scores[i] : scores[lanes + i];
      const float b = scores[2 * lanes + i] > scores[3 * lanes + i] ? scores[2 * lanes + i] : scores[3 * lanes + i];
      const float c = a > b ? a : b;
      largest[i] = c > largest[i] ? c : largest[i];
    }
  }
  for (; key < num_keys; ++key, scores += lanes) {
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) largest[i] = scores[i] > largest[i] ? scores[i] : largest[i];
  }
}

TRAINER_SIMD bool softmax_panel(float* __restrict scores, std::int64_t num_keys, float* __restrict largest,
                                float* __restrict sum, float* __restrict factor) {
  float before[lanes], sums[lanes];
  for (std::int64_t i = 0; i < lanes; ++i) before[i] = largest[i];
  raise_largest(scores, num_keys, largest);
  int num_changed = 0;
#pragma omp simd reduction(+ : num_changed)
  for (std::int64_t i = 0; i < lanes; ++i) {
    num_changed += before[i] != largest[i] ? 1 : 0;
    factor[i] = vector_exp_of_difference(before[i] - largest[i]);
    sums[i] = sum[i] * factor[i];
  }
  for (std::int64_t key = 0; key < num_keys; ++key, scores += lanes) {
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) {
      const float weight = vector_exp_of_difference(scores[i] - largest[i]);
      scores[i] = weight;
      sums[i] += weight;
    }
  }
  for (std::int64_t i = 0; i < lanes; ++i) sum[i] = sums[i];
  return num_changed > 0;
}

TRAINER_SIMD void weigh_panel(float* __restrict scores, std::int64_t num_keys, const float* __restrict lse) {
  for (std::int64_t key = 0; key < num_keys; ++key, scores += lanes) {
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) scores[i] = vector_exp_of_difference(scores[i] - lse[i]);
  }
}

TRAINER_SIMD void gradient_panel(const float* __restrict weights, float* __restrict gradients, std::int64_t num_keys,
                                 const float* __restrict d) {
  for (std::int64_t key = 0; key < num_keys; ++key, weights += lanes, gradients += lanes) {
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) gradients[i] = weights[i] * (gradients[i] - d[i]);
  }
}

/// The words of one key for 64 queries, as what a weight is multiplied by.
TRAINER_SIMD void draw_factors(const PhiloxStream& philox, std::uint64_t block, const DropoutRule& rule,
                               float* factors) {
  std::uint32_t words[philox_lane_words];
  draw_philox_words(philox, block, words);
#pragma omp simd
  for (std::int64_t i = 0; i < philox_lane_words; ++i)
    factors[i] = (words[i] >> 8) >= rule.threshold ? rule.scale : 0.0F;
}

TRAINER_SIMD void drop_lanes(float* __restrict weights, const float* __restrict factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < lanes; ++i) weights[i] *= factors[i];
}

TRAINER_SIMD void drop_lanes_backward(float* __restrict weights, float* __restrict gradients,
                                      const float* __restrict factors, const float* __restrict d) {
#pragma omp simd
  for (std::int64_t i = 0; i < lanes; ++i) {
    gradients[i] = weights[i] * (gradients[i] * factors[i] - d[i]);
    weights[i] *= factors[i];
  }
}

}  // namespace

KeyRange Visibility::of_queries(std::int64_t first_query, std::int64_t last_query) const {
  KeyRange keys{0, num_keys_};
  if (attributes_.causal) {
    if (attributes_.window > 0) keys.begin = std::max<std::int64_t>(0, first_query - attributes_.window + 1);
    keys.end = last_query + 1;
  }
  // Spans of later queries begin and end no earlier.
  if (spans_ != nullptr) {
    keys.begin = std::max<std::int64_t>(keys.begin, spans_[2 * first_query]);
    keys.end = std::min<std::int64_t>(keys.end, spans_[2 * last_query + 1]);
  }
  return keys;
}

void Visibility::hide_keys(const ScoreBlock& block) const {
  if (!attributes_.causal && spans_ == nullptr) return;
  for (std::int64_t p = 0; p < block.num_panels; ++p) {
    const std::int64_t query = block.first_query + p * lanes;
    for (std::int64_t j = 0; j < block.num_keys; ++j) {
      const std::int64_t key = block.first_key + j;
      // Those that see a key are neighbours: of its span, and where it is causal, from the key's own place on.
      std::int64_t first = attributes_.causal ? key : 0;
      std::int64_t end = attributes_.window > 0 ? key + attributes_.window : query + lanes;
      if (spans_ != nullptr) {
        first = std::max<std::int64_t>(first, spans_[2 * key]);
        end = std::min<std::int64_t>(end, spans_[2 * key + 1]);
      }
      if (first > query || end < query + lanes) hide_lanes(block.panel(p) + j * lanes, first - query, end - query);
    }
  }
}

bool add_to_softmax(const ScoreBlock& block, const SoftmaxLines& lines) {
  bool changed = false;
  for (std::int64_t p = 0; p < block.num_panels; ++p)
    changed = softmax_panel(block.panel(p), block.num_keys, lines.largest + p * lanes, lines.sum + p * lanes,
                            lines.factor + p * lanes) ||
              changed;
  return changed;
}

void scores_to_weights(const ScoreBlock& block, const float* lse) {
  for (std::int64_t p = 0; p < block.num_panels; ++p) weigh_panel(block.panel(p), block.num_keys, lse + p * lanes);
}

void weights_to_score_gradients(const ScoreBlock& weights, float* gradients, const float* d) {
  for (std::int64_t p = 0; p < weights.num_panels; ++p)
    gradient_panel(weights.panel(p), gradients + p * weights.stride, weights.num_keys, d + p * lanes);
}

void WeightDropout::drop(const ScoreBlock& weights) const {
  float factors[philox_lane_words];
  for (std::int64_t j = 0; j < weights.num_keys; ++j) {
    const auto key = static_cast<std::uint64_t>(weights.first_key + j);
    draw_factors(philox, first_block + key * key_blocks + static_cast<std::uint64_t>(weights.first_query / 4), rule,
                 factors);
    for (std::int64_t p = 0; p < weights.num_panels; ++p) drop_lanes(weights.panel(p) + j * lanes, factors + p * lanes);
  }
}

void WeightDropout::drop_backward(const ScoreBlock& weights, float* gradients, const float* d) const {
  float factors[philox_lane_words];
  for (std::int64_t j = 0; j < weights.num_keys; ++j) {
    const auto key = static_cast<std::uint64_t>(weights.first_key + j);
    draw_factors(philox, first_block + key * key_blocks + static_cast<std::uint64_t>(weights.first_query / 4), rule,
                 factors);
    for (std::int64_t p = 0; p < weights.num_panels; ++p)
      drop_lanes_backward(weights.panel(p) + j * lanes, gradients + p * weights.stride + j * lanes, factors + p * lanes,
                          d + p * lanes);
  }
}

std::uint64_t weight_blocks(const AttentionShape& shape, std::int64_t num_samples) {
  return static_cast<std::uint64_t>(num_samples * shape.all_heads * shape.keys * ((shape.queries + 3) / 4));
}

WeightDropout weight_dropout_of(const AttentionShape& shape, const DropoutRule& rule, const PhiloxStream& philox,
                                std::int64_t of_head) {
  const auto key_blocks = static_cast<std::uint64_t>((shape.queries + 3) / 4);
  return {philox, rule, static_cast<std::uint64_t>(of_head * shape.keys) * key_blocks, key_blocks};
}

TRAINER_SIMD void scale_panel(float* __restrict panel, std::int64_t rows, const float* __restrict factors) {
  for (std::int64_t row = 0; row < rows; ++row, panel += lanes) {
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) panel[i] *= factors[i];
  }
}

TRAINER_SIMD float dot_of_rows(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace trainer
