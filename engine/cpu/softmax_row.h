#pragma once

#include <cstdint>

namespace trainer {

/// The denominator of a row's softmax, Σ exp(logit − shift), with the largest logit as the shift.
struct Softmax {
  float shift;
  double sum;

  Softmax(const float* logits, std::int64_t classes);
};

}  // namespace trainer
