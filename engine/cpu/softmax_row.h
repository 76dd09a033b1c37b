#pragma once

#include <cstdint>

namespace trainer {

/// The denominator of a row's softmax, Σ exp(logit − shift), with the largest logit as the shift.
struct Softmax {
  float shift;
  double sum;

  Softmax(const float* logits, std::int64_t classes);
};

/// Of `count` classes those that come before one of the logit `reached` when sorted by falling logit; of equal ones
/// those below number `first_behind`. NaN comes before all, so that a row with one never counts as correct.
std::int64_t classes_before(const float* logits, float reached, std::int64_t first_behind, std::int64_t count);

}  // namespace trainer
