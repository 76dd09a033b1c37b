#pragma once

namespace trainer {

struct Op;

/// Elements of the f64 vector into which a loss op adds its batch.
enum LossStatistic : int {
  loss_sum,     ///< sum of the (weighted) losses of all samples; divided by loss_weight it is the mean loss
  loss_weight,  ///< what PyTorch's 'mean' divides by: samples, their class weights, or numbers (mse, bce)
  num_correct,  ///< samples whose largest logit is the target's (bce: numbers on the right side of 0.5)
  num_correct_top5,
  num_counted,  ///< what the accuracies divide by
  num_loss_statistics,
};

struct LossStatisticsAttributes {
  bool keeps_non_finite = true;  ///< false under a loss scale: an overflow there is a skipped step
  friend bool operator==(const LossStatisticsAttributes&, const LossStatisticsAttributes&) = default;
};

/// Starts a step. inputs: loss statistics f64 (num_loss_statistics) [all cleared, but where keeps_non_finite for a
/// loss_sum that is not finite, which stays]; no outputs. So the first loss that is not finite keeps every update from
/// then on from changing anything (see optimizer_update.h), also those of steps that were queued before the host saw
/// it.
Op start_loss_statistics_op(const LossStatisticsAttributes& attributes = {});

}  // namespace trainer
