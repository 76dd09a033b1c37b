#include "engine/train/measure/range_test.h"

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

constexpr double smoothing = 0.98, highest_rise = 4;
constexpr std::size_t num_last_left_out = 5;

/// The valley of losses, as a place in them; nothing where no loss is below one before it.
std::optional<std::size_t> valley_of(std::span<const double> losses) {
  // The length of the longest falling subsequence that ends at each.
  std::vector<std::size_t> lengths(losses.size(), 1);
  std::size_t end = 0;
  for (std::size_t i = 1; i < losses.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (losses[i] < losses[j]) lengths[i] = std::max(lengths[i], lengths[j] + 1);
    if (lengths[i] > lengths[end]) end = i;
  }
  if (losses.empty() || lengths[end] < 2) return std::nullopt;
  const std::size_t length = lengths[end];
  const std::size_t place = end + length / 3 + length / 6;
  return place > length ? place - length : 0;
}

std::optional<std::size_t> steepest_of(std::span<const double> rates, std::span<const double> losses) {
  std::optional<std::size_t> steepest;
  double lowest = 0;
  for (std::size_t i = 0; i + 1 < losses.size(); ++i) {
    const double slope = (losses[i + 1] - losses[i]) / (std::log(rates[i + 1]) - std::log(rates[i]));
    if (slope >= lowest) continue;
    lowest = slope;
    steepest = i;
  }
  return steepest;
}

}  // namespace

double range_test_rate(const RangeTestOptions& options, std::int64_t step) {
  const double share = static_cast<double>(step - 1) / static_cast<double>(options.steps);
  return options.from * std::pow(options.to / options.from, share);
}

bool RangeTest::add(double loss) {
  if (!std::isfinite(loss)) {
    end_ = RangeTestEnd::not_finite;
    return false;
  }
  average_ = smoothing * average_ + (1 - smoothing) * loss;
  weight_ *= smoothing;
  const double smoothed = average_ / (1 - weight_);
  rates_.push_back(range_test_rate(options_, static_cast<std::int64_t>(rates_.size()) + 1));
  losses_.push_back(loss);
  smoothed_.push_back(smoothed);
  lowest_ = smoothed_.size() == 1 ? smoothed : std::min(lowest_, smoothed);
  if (smoothed > highest_rise * lowest_) {
    end_ = RangeTestEnd::rose;
    return false;
  }
  return static_cast<std::int64_t>(rates_.size()) < options_.steps;
}

std::size_t RangeTest::num_judged() const {
  const std::size_t left_out = first_judged() + num_last_left_out;
  return smoothed_.size() > left_out ? smoothed_.size() - left_out : 0;
}

SuggestedRates RangeTest::suggestions() const {
  SuggestedRates suggested;
  const std::size_t first = first_judged(), count = num_judged();
  if (count < 2) return suggested;
  const std::span<const double> rates = this->rates().subspan(first, count);
  const std::span<const double> losses = smoothed().subspan(first, count);
  if (const std::optional<std::size_t> place = valley_of(losses))
    suggested.valley = SuggestedRate{rates[*place], first + *place};
  if (const std::optional<std::size_t> place = steepest_of(rates, losses))
    suggested.steepest = SuggestedRate{rates[*place], first + *place};
  const auto lowest = static_cast<std::size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
  suggested.minimum = SuggestedRate{rates[lowest] / 10, first + lowest};
  return suggested;
}

}  // namespace trainer
