#pragma once

#include "engine/config/loss_terms.h"

namespace trainer {

struct Op;
struct TensorType;

/// Which term of the loss an op computes. Each has statistics of its own, one behind the other, and a factor for its
/// gradient among the scalars of a step.
struct LossTerm {
  int index = 0, count = 1;
  friend bool operator==(const LossTerm&, const LossTerm&) = default;
};

/// Elements of the f64 vector into which a loss op adds its batch, and updates put what they find: of each term.
enum LossStatistic : int {
  loss_sum,     ///< sum of the (weighted) losses of all targets; divided by loss_weight it is the mean loss
  loss_weight,  ///< what PyTorch's 'mean' divides by: classes, their weights, or numbers; dice: samples
  num_correct,  ///< targets whose class has the largest logit (bce: numbers on the right side of 0.5)
  num_correct_top5,
  num_counted,  ///< what the accuracies divide by; NaN where an update lost a weight: Note [Lost weights]
  num_loss_statistics,
};

/// Of a loss op, or of its gradient's.
const LossTerm& loss_term_of(const Op& op);

/// Of a loss with so many terms.
TensorType loss_statistics_type(int num_terms = 1);

struct LossStatisticsAttributes {
  int num_terms = 1;
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
// Of a sum all of this is in the statistics of the first term, which a loss op of another term makes NaN where its own
// loss_sum is not finite: updates look at those alone.

/// Starts a step. inputs: loss statistics [all cleared, but where keeps_non_finite for a loss_sum of the first term
/// that is not finite, which stays; where num_counted there is NaN it stays, and loss_sum becomes NaN]; no outputs. So
/// the first loss or weight that is not finite keeps every update of later steps from changing anything (see
/// optimizer_update.h), also of those that were queued before the host saw it.
Op start_loss_statistics_op(const LossStatisticsAttributes& attributes = {});

}  // namespace trainer
