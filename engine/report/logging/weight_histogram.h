#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trainer {

/// Counts numbers in TensorBoard's buckets: limits of 1e-12 · 1.1^k below 1e20, their negatives and 0, as TensorFlow's
/// histogram (tensorflow/core/lib/histogram) has them. A number is in the bucket whose limit is the first above it.
/// What is not finite is left out.
class WeightHistogram {
 public:
  WeightHistogram();

  void add(std::span<const float> numbers);
  std::int64_t count() const { return count_; }
  /// A HistogramProto of tensorboard/compat/proto/summary.proto: empty buckets at both ends are left out.
  std::string message() const;

 private:
  std::vector<std::int64_t> counts_;  ///< by bucket
  std::int64_t count_ = 0;
  double sum_ = 0, sum_of_squares_ = 0;
  float least_ = std::numeric_limits<float>::infinity(), most_ = -std::numeric_limits<float>::infinity();
};

}  // namespace trainer
