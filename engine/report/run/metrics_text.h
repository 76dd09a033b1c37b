#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "engine/report/text/style.h"
#include "engine/train/events.h"

namespace trainer {

/// Of a confusion matrix that events tell whole.
inline constexpr std::size_t most_told_classes = 1024;

/// "accuracy 85.83 %", "loss 0.0319", "MAE 0.12".
std::string metric_text(Metric metric, double value);

/// All of an evaluation but its loss, separated by commas: "accuracy 85.83 %, top-5 99.17 %"; empty where there is
/// none.
std::string metrics_text(const std::optional<double>& accuracy, const std::optional<double>& top5,
                         const CountedMetrics& counted);

/// Means of the terms of a loss: "0.1234 + 0.5678"; empty where it is no sum.
std::string terms_text(const LossTerms& terms);

/// Which class was taken for which, with the IoU of each: a table of up to ten classes; of more, the mistakes that were
/// made most and the classes of the lowest IoU. Empty where it was not counted.
/// `whole`: what has all of them.
std::string confusion_text(const CountedMetrics& counted, const Style& style,
                           const std::string& whole = "the event `end`");

}  // namespace trainer
