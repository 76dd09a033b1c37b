#pragma once

#include <cstdint>

#include "engine/cpu/panel_product.h"
#include "engine/ops/attention.h"
#include "engine/ops/dropout.h"
#include "engine/philox.h"

namespace trainer {

/// Queries and keys of a block: the scores between them are (keys, queries) in panels, Note [Panels]. A panel's 16
/// queries are its lanes; what lies behind the last query is computed and not read.
struct ScoreBlock {
  float* scores = nullptr;
  std::int64_t first_query = 0, first_key = 0, num_keys = 0;
  std::int64_t num_panels = 0;
  std::int64_t stride = 0;  ///< from one panel to the next

  float* panel(std::int64_t p) const { return scores + p * stride; }
};

struct KeyRange {
  std::int64_t begin = 0, end = 0;
};

/// Which keys the queries of a sample see.
class Visibility {
 public:
  /// `spans`, of the op's operand, are those of all samples; null: there are none.
  Visibility(const AttentionShape& shape, const AttentionAttributes& attributes, const std::int32_t* spans,
             std::int64_t sample)
      : attributes_(attributes),
        num_keys_(shape.keys),
        spans_(spans == nullptr ? nullptr : spans + 2 * sample * shape.keys) {}

  /// Keys of which at least one query of [first_query, last_query] sees each.
  KeyRange of_queries(std::int64_t first_query, std::int64_t last_query) const;
  /// Scores of keys that a query does not see become −∞.
  void hide_keys(const ScoreBlock& block) const;

 private:
  const AttentionAttributes& attributes_;
  std::int64_t num_keys_;
  const std::int32_t* spans_;
};

/// Of each query: the largest score so far and the sum of exponentials below it.
struct SoftmaxLines {
  float *largest, *sum;
  float* factor;  ///< what the last block has made of what was summed before
};
/// Scores become exp(score − largest). Returns whether a factor is not 1.
bool add_to_softmax(const ScoreBlock& block, const SoftmaxLines& lines);

/// Scores become exp(score − lse), a number of each query.
void scores_to_weights(const ScoreBlock& block, const float* lse);
/// The gradients of dropped weights in `gradients` become those of scores: w · (g − d), with d of each query.
void weights_to_score_gradients(const ScoreBlock& weights, float* gradients, const float* d);

/// Dropout of the weights of a head.
struct WeightDropout {
  PhiloxStream philox;
  DropoutRule rule;
  std::uint64_t first_block = 0;  ///< of the head's words, in Philox blocks
  std::uint64_t key_blocks = 0;   ///< of one key

  /// Weights that are dropped become 0, the others larger; at most 64 queries.
  void drop(const ScoreBlock& weights) const;
  /// As weights_to_score_gradients with gradients that dropout has not been through, and drops the weights.
  void drop_backward(const ScoreBlock& weights, float* gradients, const float* d) const;
};

/// Philox blocks of the weights of so many samples.
std::uint64_t weight_blocks(const AttentionShape& shape, std::int64_t num_samples);
/// That of AttentionShape::drawn_head `of_head`.
WeightDropout weight_dropout_of(const AttentionShape& shape, const DropoutRule& rule, const PhiloxStream& philox,
                                std::int64_t of_head);

/// panel (rows, 16) times a factor of each lane.
void scale_panel(float* panel, std::int64_t rows, const float* factors);
float dot_of_rows(const float* a, const float* b, std::int64_t count);

}  // namespace trainer
