#include "engine/graph/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/config/diagnostic.h"
#include "engine/config/fields/enum_choices.h"

namespace trainer {
namespace {

bool has_loss(const Experiment& experiment, LossType type) {
  return std::any_of(experiment.losses.begin(), experiment.losses.end(),
                     [&](const LossConfig& loss) { return loss.type == type; });
}

/// Whether a number as target is the probability of yes.
bool are_answers(const Experiment& experiment) {
  return has_loss(experiment, LossType::bce_with_logits) || has_loss(experiment, LossType::dice);
}

}  // namespace

std::int64_t num_counted_classes(const DataDescription& data) { return data.categorical() ? data.num_outputs : 2; }

bool tells_perplexity(const Experiment& experiment, const DataDescription& data) {
  if (data.inputs.front().type.dtype != DType::i32 || !data.categorical() || experiment.losses.size() != 1)
    return false;
  const LossConfig& loss = experiment.losses.front();
  return loss.type == LossType::cross_entropy && loss.label_smoothing == 0 && loss.class_weights.empty();
}

Counted counted_by(const Experiment& experiment, const DataDescription& data) {
  if (data.num_validation == 0) return Counted::nothing;
  if (!data.categorical() && !are_answers(experiment)) return Counted::errors;
  const Metric best = experiment.checkpoint.best;
  if (best == Metric::mean_iou || best == Metric::dice) return Counted::confusion;
  // Dice counts nothing by itself.
  const bool needs_accuracy = best == Metric::accuracy && !has_loss(experiment, LossType::cross_entropy) &&
                              !has_loss(experiment, LossType::bce_with_logits);
  if (needs_accuracy) return Counted::confusion;
  constexpr std::int64_t most_unasked_classes = 1024;
  const bool are_tokens = data.inputs.front().type.dtype == DType::i32;
  const bool are_pixels = !are_tokens && data.target.shape.rank() > (data.categorical() ? 0 : 1);
  switch (experiment.train.confusion_matrix) {
    case ConfusionMatrixUse::on:
      return Counted::confusion;
    case ConfusionMatrixUse::off:
      return Counted::nothing;
    case ConfusionMatrixUse::automatic:
      break;
  }
  return are_pixels && num_counted_classes(data) <= most_unasked_classes ? Counted::confusion : Counted::nothing;
}

Op counting_op(Counted counted, const Experiment& experiment, const TensorType& prediction, const TensorType& targets) {
  if (counted == Counted::errors) return error_statistics_op(prediction, targets);
  constexpr std::int64_t most_classes = std::int64_t{1} << 14;
  if (targets.dtype == DType::i32 && prediction.shape[-1] > most_classes) {
    const bool is_asked = experiment.train.confusion_matrix == ConfusionMatrixUse::on;
    throw located_error(is_asked ? experiment.train.confusion_matrix_location : experiment.checkpoint.best_location,
                        fmt::format("the confusion matrix of {} classes would have {:.1f} GiB", prediction.shape[-1],
                                    8 * std::pow(static_cast<double>(prediction.shape[-1]), 2) / 0x1p30),
                        fmt::format("at most {} classes", most_classes));
  }
  return confusion_matrix_op(prediction, targets, {.ignore_index = experiment.data.ignored_target});
}

void check_best_metric(const Experiment& experiment, const DataDescription& data) {
  const Metric best = experiment.checkpoint.best;
  if (data.num_validation == 0 || best == Metric::loss) return;
  const auto refuse = [&](const std::string& why, const std::string& instead) {
    throw located_error(experiment.checkpoint.best_location,
                        fmt::format("'checkpoint.best: {}' {}", metric_choices().name_of(best), why), instead);
  };
  if (best == Metric::top5 && data.num_outputs <= 5)
    refuse(fmt::format("needs more than 5 classes; the data has {}", data.num_outputs), "accuracy, or another metric");
  const bool is_of_numbers = best == Metric::mae || best == Metric::r2;
  if (is_of_numbers && counted_by(experiment, data) != Counted::errors)
    refuse("needs numbers as targets", "loss, accuracy, mean_iou or dice");
}

}  // namespace trainer
