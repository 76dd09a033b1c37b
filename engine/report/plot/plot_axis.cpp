#include "engine/report/plot/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/bytes.h"
#include "engine/config/sweep/sweep_grid.h"
#include "engine/report/text/nearest_integer.h"

namespace trainer {
namespace {

constexpr double most_axis_steps = 6;
constexpr double largest_number = std::numeric_limits<double>::max();

/// From `first_step` steps on.
template <class Label>
HeightAxis axis_in_steps(double first_step, double highest, double step, const Label& label) {
  HeightAxis axis;
  const double num_steps = std::max(1.0, std::ceil(highest / step - 1e-9) - first_step);
  axis.begin = std::max(first_step * step, -largest_number);
  axis.end = std::min((first_step + num_steps) * step, largest_number);
  const bool is_cut = axis.begin == -largest_number || axis.end == largest_number;
  for (int i = 0; i <= static_cast<int>(num_steps); ++i) {
    const double value = (first_step + i) * step;
    if (std::isfinite(value)) axis.ticks.push_back({is_cut ? axis.at(value) : i / num_steps, label(value)});
  }
  return axis;
}

/// Of 1, 2 or 5 times a power of ten, so that few of them make the range.
double round_step(double lowest, double highest) {
  // A step below these would be lost when it is added, or not be a normal number.
  constexpr double least_share = 1e-10, least = std::numeric_limits<double>::min();
  // By halves, whose difference is finite wherever the numbers are.
  const double half =
      std::max({highest / 2 - lowest / 2, least_share * std::max(std::abs(lowest), std::abs(highest)), least});
  double step = std::max(std::pow(10.0, std::floor(std::log10(half) + std::log10(2.0)) - 1), least);
  for (int i = 0; 2 * (half / step) > most_axis_steps; ++i) step *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10
  return step;
}

std::string number_label(double number, int num_digits = 6) { return fmt::format("{:.{}g}", number, num_digits); }

/// With as many digits as tell neighbouring marks apart.
HeightAxis axis_of_numbers(double lowest, double highest) {
  const double step = round_step(lowest, highest);
  const double most = std::max(std::abs(lowest), std::abs(highest));
  // One more than their distance, and one for what the axis adds at its end.
  const double num_digits = std::floor(std::log10(std::max(most, step))) - std::floor(std::log10(step)) + 2;
  return axis_in_steps(std::floor(lowest / step), highest, step, [=](double number) {
    return number_label(number, static_cast<int>(std::clamp(num_digits, 6.0, 15.0)));
  });
}

/// How unevenly points lie: the largest gap over the smallest.
double unevenness(const std::vector<double>& points) {
  double smallest = INFINITY, largest = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double gap = points[i] - points[i - 1];
    smallest = std::min(smallest, gap);
    largest = std::max(largest, gap);
  }
  return smallest > 0 ? largest / smallest : INFINITY;
}

}  // namespace

HeightAxis bytes_axis(double highest) {
  double step = 1;
  while (highest / step > most_axis_steps) step *= 2;
  return axis_in_steps(0, highest, step, [](double bytes) { return format_bytes(nearest_integer(bytes)); });
}

HeightAxis number_axis(double highest) { return axis_of_numbers(0, highest > 0 ? highest : 1); }

HeightAxis linear_axis(double lowest, double highest) {
  constexpr double near_zero = 0.5;
  if (!(highest > lowest)) return highest < 0 ? axis_of_numbers(highest, 0) : number_axis(highest);
  if (lowest >= 0 && lowest < near_zero * highest) return number_axis(highest);
  return axis_of_numbers(lowest, highest);
}

HeightAxis logarithmic_axis(double lowest, double highest) {
  constexpr double few_decades = 2, rounding = 1e-9;
  const double least = std::max(lowest, std::numeric_limits<double>::min());
  const double first = std::log10(least), last = std::log10(std::max(highest, least));
  std::vector<double> marks = {0};
  if (last - first < few_decades) marks = {0, std::log10(2.0), std::log10(5.0)};
  std::vector<double> places;  // logarithms, from the last at or below the lowest to the first at or above the highest
  const double apart = std::max(1.0, std::ceil((std::ceil(last) - std::floor(first)) / most_axis_steps));
  for (double power = std::floor(first); places.empty() || places.back() < last - rounding; power += apart) {
    for (const double mark : marks) {
      const double place = power + mark;
      if (!places.empty() && places.back() >= last - rounding) break;
      if (place <= first + rounding) places.clear();
      places.push_back(place);
    }
  }
  if (places.size() == 1) places.push_back(places.front() + 1);
  HeightAxis axis;
  axis.is_logarithmic = true;
  axis.begin = std::pow(10.0, places.front());
  axis.end = std::min(std::pow(10.0, places.back()), largest_number);
  const double length = std::min(places.back(), std::log10(largest_number)) - places.front();
  for (const double place : places)
    if (const double value = std::pow(10.0, place); std::isfinite(value))
      axis.ticks.push_back({(place - places.front()) / length, number_label(value)});
  return axis;
}

HeightAxis range_axis(double lowest, double highest) {
  constexpr double wide = 100;
  if (!(lowest > 0 && highest > wide * lowest)) return linear_axis(lowest, highest);
  return logarithmic_axis(lowest, highest);
}

double HeightAxis::at(double value) const {
  if (is_logarithmic) return value > 0 ? (std::log(value) - std::log(begin)) / (std::log(end) - std::log(begin)) : 0;
  return (value / 2 - begin / 2) / (end / 2 - begin / 2);
}

std::optional<double> HeightAxis::share_of(double value) const { return share_within(at(value)); }

std::optional<double> share_within(double share) {
  if (std::isnan(share)) return std::nullopt;
  return std::clamp(share, 0.0, 1.0);
}

ValueAxis value_axis(const std::vector<std::string>& values) {
  ValueAxis axis;
  std::vector<double> numbers;
  for (const std::string& value : values)
    if (const std::optional<double> number = number_of_value(value)) numbers.push_back(*number);
  axis.is_continuous = numbers.size() == values.size();
  const double num_values = static_cast<double>(values.size());
  if (!axis.is_continuous || numbers.size() < 2 || numbers.back() <= numbers.front()) {
    for (std::size_t i = 0; i < values.size(); ++i)
      axis.positions.push_back((static_cast<double>(i) + 0.5) / num_values);
    return axis;
  }
  if (numbers.front() > 0) {
    std::vector<double> logarithms = numbers;
    for (double& number : logarithms) number = std::log(number);
    axis.is_logarithmic = unevenness(logarithms) < unevenness(numbers) * (1 - 1e-9);
    if (axis.is_logarithmic) numbers = std::move(logarithms);
  }
  constexpr double room = 0.05;
  for (const double number : numbers)
    axis.positions.push_back(room + (1 - 2 * room) * (number - numbers.front()) / (numbers.back() - numbers.front()));
  return axis;
}

}  // namespace trainer
