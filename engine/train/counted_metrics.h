#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// Counts that all copies of an event share: a matrix of many classes is large.
class SharedCounts {
 public:
  SharedCounts() = default;
  explicit SharedCounts(std::vector<std::int64_t> counts)
      : counts_(std::make_shared<const std::vector<std::int64_t>>(std::move(counts))) {}

  bool empty() const { return size() == 0; }
  std::size_t size() const { return counts_ ? counts_->size() : 0; }
  std::int64_t operator[](std::size_t i) const { return (*counts_)[i]; }
  const std::int64_t* begin() const { return counts_ ? counts_->data() : nullptr; }
  const std::int64_t* end() const { return begin() + size(); }
  friend bool operator==(const SharedCounts& a, const SharedCounts& b) { return std::ranges::equal(a, b); }

 private:
  std::shared_ptr<const std::vector<std::int64_t>> counts_;
};

/// What evaluations count beside the loss: engine/graph/metrics.h.
///
/// Of a class with so many true positives TP, false ones FP and false negatives FN, IoU is TP / (TP + FP + FN) and dice
/// 2 · TP / (2 · TP + FP + FN). Their means are over the classes that occur, guessed or true, without one that is
/// ignored (torchmetrics' JaccardIndex, average="macro"). R² is 1 − Σ (p − t)² / Σ (t − mean of t)² over all numbers of
/// all targets as one list (scikit-learn's r2_score of the flattened arrays); it has no value where they are all alike.
struct CountedMetrics {
  std::optional<double> accuracy;  ///< share of the counted guesses that are right
  std::optional<double> mean_iou, dice, mae, r2;
  std::optional<double> perplexity;           ///< e to the mean cross-entropy of a token
  std::optional<double> bits_per_byte;        ///< of a text: the cross-entropy in bits over the bytes of its targets
  std::vector<double> class_iou, class_dice;  ///< by class; NaN: it does not occur
  SharedCounts confusion;                     ///< (classes, classes) by truth and guess
};

/// Of a confusion matrix (num_classes, num_classes), by truth and guess.
CountedMetrics metrics_of_confusion(std::vector<std::int64_t> counts, std::int64_t num_classes, std::int64_t ignored);
/// Of the sums of engine/ops/error_statistics.h.
CountedMetrics metrics_of_errors(std::span<const double> sums);

/// Whether a higher value is better.
constexpr bool is_better_higher(Metric metric) { return metric != Metric::loss && metric != Metric::mae; }

}  // namespace trainer
