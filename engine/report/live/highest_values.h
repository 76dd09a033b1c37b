#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer {

/// The highest value of each stretch of steps, in little memory however many there are.
class HighestValues {
 public:
  /// Of the next step.
  void add(std::int64_t step, double value);

  /// For `columns` stretches of equal length from the first step to the last; NaN where a stretch has no step.
  std::vector<double> columns(std::size_t columns) const;
  std::int64_t first_step() const { return stretches_.empty() ? 0 : stretches_.front().first_step; }
  std::int64_t last_step() const { return stretches_.empty() ? 0 : stretches_.back().last_step; }

 private:
  struct Stretch {
    std::int64_t first_step = 0, last_step = 0;
    double highest = 0;
  };

  std::int64_t steps_per_stretch_ = 1;
  std::vector<Stretch> stretches_;
};

}  // namespace trainer
