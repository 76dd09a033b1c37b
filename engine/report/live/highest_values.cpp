#include "engine/report/live/highest_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainer {
namespace {

constexpr std::size_t most_value_stretches = 1024;

}  // namespace

void HighestValues::add(std::int64_t step, double value) {
  if (stretches_.empty() || step - stretches_.back().first_step >= steps_per_stretch_) {
    if (stretches_.size() == most_value_stretches) {
      for (std::size_t i = 0; i < most_value_stretches / 2; ++i) {
        const Stretch &first = stretches_[2 * i], &second = stretches_[2 * i + 1];
        stretches_[i] = {first.first_step, second.last_step, std::max(first.highest, second.highest)};
      }
      stretches_.resize(most_value_stretches / 2);
      steps_per_stretch_ *= 2;
    }
    stretches_.push_back({step, step, value});
  }
  Stretch& last = stretches_.back();
  last.last_step = step;
  last.highest = std::max(last.highest, value);
}

std::vector<double> HighestValues::columns(std::size_t columns) const {
  std::vector<double> highest(columns, std::numeric_limits<double>::quiet_NaN());
  if (stretches_.empty() || columns == 0) return highest;
  const double length = static_cast<double>(std::max<std::int64_t>(last_step() - first_step(), 1));
  for (const Stretch& stretch : stretches_) {
    const double share = static_cast<double>(stretch.first_step - first_step()) / length;
    double& column = highest[static_cast<std::size_t>(std::lround(share * static_cast<double>(columns - 1)))];
    column = std::isnan(column) ? stretch.highest : std::max(column, stretch.highest);
  }
  return highest;
}

}  // namespace trainer
