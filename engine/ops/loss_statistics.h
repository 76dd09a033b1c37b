#pragma once

namespace trainer {

struct Op;

/// Elements of the f64 vector into which a loss op adds its batch, and updates put what they find.
enum LossStatistic : int {
  loss_sum,     ///< sum of the (weighted) losses of all targets; divided by loss_weight it is the mean loss
  loss_weight,  ///< what PyTorch's 'mean' divides by: classes, their weights, or numbers (mse, bce)
  num_correct,  ///< targets whose class has the largest logit (bce: numbers on the right side of 0.5)
  num_correct_top5,
  num_counted,  ///< what the accuracies divide by; NaN where an update lost a weight: Note [Lost weights]
  num_loss_statistics,
};

struct LossStatisticsAttributes {
  bool keeps_non_finite = true;  ///< false under a loss scale: an overflow there is a skipped step
  friend bool operator==(const LossStatisticsAttributes&, const LossStatisticsAttributes&) = default;
};

// Note [Lost weights]
// ~~~~~~~~~~~~~~~~~~~
// A loss can be finite over numbers that are not: a library's ReLU may turn NaN into 0, and a mean is blind to what it
// does not weigh. What is not finite then shows in the gradients and so in the weights (0 · inf and 0 · NaN are NaN),
// and an update holds every new weight in a register: where one is not finite it makes num_counted NaN, at no cost,
// which stays so whatever is added. The host reads that with the step's loss, and the run ends as one whose loss is not
// finite does. Updates of the same step are not kept back by it, so that which weights are lost does not depend on the
// order of blocks; those of later steps are, by the loss_sum that start_loss_statistics makes NaN. Under a loss scale
// an update that overflowed is skipped and writes no weight: there too a lost weight is divergence.

/// Starts a step. inputs: loss statistics f64 (num_loss_statistics) [all cleared, but where keeps_non_finite for a
/// loss_sum that is not finite, which stays; where num_counted is NaN it stays, and loss_sum becomes NaN]; no outputs.
/// So the first loss or weight that is not finite keeps every update of later steps from changing anything (see
/// optimizer_update.h), also of those that were queued before the host saw it.
Op start_loss_statistics_op(const LossStatisticsAttributes& attributes = {});

}  // namespace trainer
