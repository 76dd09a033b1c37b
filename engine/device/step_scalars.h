#pragma once

#include <cstdint>

#include "engine/ops/loss_statistics.h"

namespace trainer {

/// The numbers that change from step to step; a kernel reads them when it runs, never when it is made.
struct StepScalars {
  std::uint64_t seed = 0;
  /// Counts the micro-batches since the start of training: keys dropout.
  std::uint32_t pass = 0;
  /// Where this rank's samples begin in the micro-batch that all ranks share: what is drawn for a sample does not
  /// depend on the number of ranks.
  std::int64_t first_sample = 0;
  /// What the gradient of the summed loss is multiplied by: 1 / (samples, class weights or numbers of the whole step,
  /// over all its micro-batches). Of a loss that is a sum, that of its first term, times the term's weight.
  float gradient_scale = 1;
  float further_gradient_scales[most_loss_terms - 1] = {};  ///< of the other terms

  float gradient_scale_of(const LossTerm& term) const {
    return term.index == 0 ? gradient_scale : further_gradient_scales[term.index - 1];
  }
  double learning_rate = 0;
  double momentum = 0;  ///< where it changes from step to step: UpdatePace::cycles_momentum
  /// 1 in the first update.
  std::int64_t update = 0;
  double average_share = 0;  ///< of a weight in its average: average_weights_op
};

}  // namespace trainer
