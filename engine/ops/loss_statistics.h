#pragma once

namespace trainer {

/// Elements of the f64 vector into which a loss op adds its batch; the host clears it before a step or evaluation.
enum LossStatistic : int {
  loss_sum,     ///< sum of the (weighted) losses of all samples; divided by loss_weight it is the mean loss
  loss_weight,  ///< what PyTorch's 'mean' divides by: samples, their class weights, or numbers (mse, bce)
  num_correct,  ///< samples whose largest logit is the target's (bce: numbers on the right side of 0.5)
  num_correct_top5,
  num_counted,  ///< what the accuracies divide by
  num_loss_statistics,
};

}  // namespace trainer
