#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "datasets/text/token_id.h"

namespace trainer {

/// How the next token of a text is drawn from the model's logits, in this order, as in transformers.
struct TokenChoice {
  double temperature = 1;  ///< logits are divided by it; 0: the token of the highest, the first of equals
  std::int64_t top_k = 0;  ///< the k of the highest logits and those equal to the last of them; 0: all
  double top_p = 1;        ///< of these the likeliest that together reach it, at least one
};

/// Draws tokens; equal logits and numbers give equal tokens on every machine.
class TokenChooser {
 public:
  explicit TokenChooser(const TokenChoice& choice) : choice_(choice) {}

  /// `uniform` in [0, 1) is where in the distribution, the likeliest first, equals by number. Throws DataError where a
  /// logit is NaN, or none is finite.
  TokenId choose(std::span<const float> logits, double uniform);

 private:
  TokenChoice choice_;
  std::vector<std::pair<float, TokenId>> candidates_;  ///< logits with their tokens
  std::vector<double> weights_;
};

}  // namespace trainer
