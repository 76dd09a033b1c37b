#include "engine/train/counted_metrics.h"

#include <cmath>
#include <limits>
#include <utility>

#include "engine/errors.h"
#include "engine/ops/error_statistics.h"

namespace trainer {
namespace {

/// Of the values of classes that occur, but for the ignored one.
std::optional<double> mean_of_classes(const std::vector<double>& values, std::int64_t ignored) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t c = 0; c < values.size(); ++c) {
    if (std::isnan(values[c]) || static_cast<std::int64_t>(c) == ignored) continue;
    sum += values[c];
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace

CountedMetrics metrics_of_confusion(std::vector<std::int64_t> counts, std::int64_t num_classes, std::int64_t ignored) {
  require_internal(static_cast<std::int64_t>(counts.size()) == num_classes * num_classes,
                   "a confusion matrix has a count for each truth and guess");
  CountedMetrics metrics;
  const auto at = [&](std::int64_t truth, std::int64_t guess) {
    return static_cast<double>(counts[static_cast<std::size_t>(truth * num_classes + guess)]);
  };
  double right = 0, total = 0;
  for (std::int64_t c = 0; c < num_classes; ++c) {
    double of_truth = 0, of_guess = 0;
    for (std::int64_t other = 0; other < num_classes; ++other) {
      of_truth += at(c, other);
      of_guess += at(other, c);
    }
    const double hits = at(c, c), occurring = of_truth + of_guess;
    const double absent = std::numeric_limits<double>::quiet_NaN();
    metrics.class_iou.push_back(occurring > 0 ? hits / (occurring - hits) : absent);
    metrics.class_dice.push_back(occurring > 0 ? 2 * hits / occurring : absent);
    right += hits;
    total += of_truth;
  }
  if (total > 0) metrics.accuracy = right / total;
  metrics.mean_iou = mean_of_classes(metrics.class_iou, ignored);
  metrics.dice = mean_of_classes(metrics.class_dice, ignored);
  metrics.confusion = SharedCounts(std::move(counts));
  return metrics;
}

CountedMetrics metrics_of_errors(std::span<const double> sums) {
  require_internal(sums.size() == num_error_statistics, "errors are told by all of their sums");
  CountedMetrics metrics;
  const double count = sums[num_error_numbers];
  if (count == 0) return metrics;
  metrics.mae = sums[absolute_error_sum] / count;
  const double deviation = sums[squared_target_sum] - sums[target_sum] * sums[target_sum] / count;
  // What is left of equal targets is rounding.
  if (deviation > 1e-12 * sums[squared_target_sum]) metrics.r2 = 1 - sums[squared_error_sum] / deviation;
  return metrics;
}

}  // namespace trainer
