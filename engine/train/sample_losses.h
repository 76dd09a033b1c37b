#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// What one sample of an evaluation costs.
struct SampleLoss {
  std::int64_t index = 0;  ///< in the data that was evaluated
  double loss = 0;
  // Of one class a sample.
  std::optional<std::int32_t> target{}, predicted{};
  std::optional<double> probability{};  ///< of the predicted class
  // Of one number a sample.
  std::optional<double> number{}, predicted_number{};
};

/// Finds the samples that cost most, on the host, in f64, from the logits of batch after batch.
///
/// A sample's loss is the mean over its targets of what each costs, as PyTorch's losses with reduction='none' have it,
/// and of a loss that is a sum the terms by their weights: cross_entropy (with label_smoothing and class_weights;
/// ignored targets are left out), mse, l1, smooth_l1 and bce_with_logits. What a sample does not have by itself, dice
/// and feature, is left out.
class SampleLosses {
 public:
  /// Both must outlive it. Keeps the `most` highest, of equal ones the first.
  SampleLosses(const Experiment& experiment, const DataDescription& data, std::int64_t most);

  /// Whether the loss has a term that a sample has by itself.
  bool has_any_term() const { return num_terms_ > 0; }
  bool has_all_terms() const { return num_terms_ == experiment_.losses.size(); }

  /// The next samples: their logits, one sample after the other, and their targets as datasets give them.
  void add(std::span<const float> logits, const std::byte* targets, std::int64_t num_samples);

  /// The highest first.
  const std::vector<SampleLoss>& highest() const { return highest_; }
  std::int64_t num_samples() const { return num_samples_; }
  double sum() const { return sum_; }

 private:
  SampleLoss loss_of(std::span<const float> logits, const std::byte* targets) const;

  const Experiment& experiment_;
  const DataDescription& data_;
  const std::size_t most_;
  std::size_t num_terms_ = 0;
  std::int64_t num_samples_ = 0;
  double sum_ = 0;
  std::vector<SampleLoss> highest_;
};

}  // namespace trainer
