#include "engine/report/plot/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/bytes.h"
#include "engine/config/sweep/sweep_grid.h"

namespace trainer {
namespace {

constexpr double most_axis_steps = 6;
/// Ends of axes; beyond them steps and logarithms would not be finite.
constexpr double largest_end = 1e300, smallest_end = 1e-300;

/// From `first_step` steps on.
template <class Label>
HeightAxis axis_in_steps(double first_step, double highest, double step, const Label& label) {
  HeightAxis axis;
  const double num_steps = std::max(1.0, std::ceil(highest / step - 1e-9) - first_step);
  axis.begin = first_step * step;
  axis.end = (first_step + num_steps) * step;
  for (int i = 0; i <= static_cast<int>(num_steps); ++i)
    axis.ticks.push_back({i / num_steps, label((first_step + i) * step)});
  return axis;
}

/// Of 1, 2 or 5 times a power of ten, so that few of them make `range`.
double round_step(double range) {
  double step = std::pow(10.0, std::floor(std::log10(range)) - 1);
  for (int i = 0; range / step > most_axis_steps; ++i) step *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10
  return step;
}

std::string number_label(double number) { return fmt::format("{:.6g}", number); }

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
  return axis_in_steps(0, highest, step, [](double bytes) { return format_bytes(std::llround(bytes)); });
}

HeightAxis number_axis(double highest) {
  highest = highest > smallest_end ? std::min(highest, largest_end) : 1;
  return axis_in_steps(0, highest, round_step(highest), number_label);
}

HeightAxis linear_axis(double lowest, double highest) {
  constexpr double near_zero = 0.5;
  lowest = std::clamp(lowest, -largest_end, largest_end);
  highest = std::clamp(highest, -largest_end, largest_end);
  // Steps of less than what numbers can differ by are none.
  const double least_range = std::max(smallest_end, 1e-9 * std::max(std::abs(lowest), std::abs(highest)));
  if (!(highest - lowest > least_range) || (lowest >= 0 && lowest < near_zero * highest)) return number_axis(highest);
  const double step = round_step(highest - lowest);
  return axis_in_steps(std::floor(lowest / step), highest, step, number_label);
}

HeightAxis logarithmic_axis(double lowest, double highest) {
  constexpr double few_decades = 2, rounding = 1e-9;
  lowest = std::clamp(lowest, smallest_end, largest_end);
  highest = std::clamp(highest, lowest, largest_end);
  const double first = std::log10(lowest), last = std::log10(highest);
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
  axis.end = std::pow(10.0, places.back());
  for (const double place : places)
    axis.ticks.push_back(
        {(place - places.front()) / (places.back() - places.front()), number_label(std::pow(10.0, place))});
  return axis;
}

HeightAxis range_axis(double lowest, double highest) {
  constexpr double wide = 100;
  if (!(lowest > 0 && highest > wide * lowest)) return linear_axis(lowest, highest);
  return logarithmic_axis(lowest, highest);
}

double HeightAxis::at(double value) const {
  if (is_logarithmic) return value > 0 ? (std::log(value) - std::log(begin)) / (std::log(end) - std::log(begin)) : 0;
  return (value - begin) / (end - begin);
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
