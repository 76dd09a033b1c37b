#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

/// A mark of an axis: `at` from 0, its beginning, to 1.
struct AxisTick {
  double at = 0;
  std::string label;
};

/// An axis for heights; its ends are round numbers.
struct HeightAxis {
  double begin = 0, end = 1;
  bool is_logarithmic = false;  ///< of values above 0
  std::vector<AxisTick> ticks;

  /// From 0, its beginning, to 1; beyond them for what lies outside.
  double at(double value) const;
  /// The same, where what lies outside is at the nearer end; nothing for what is no number.
  std::optional<double> share_of(double value) const;
};

/// `share`, but not below 0 or above 1; nothing where it is no number.
std::optional<double> share_within(double share);

/// At least up to `highest`, in steps that are round in binary units: 0 B, 256.00 MiB, 512.00 MiB.
HeightAxis bytes_axis(double highest);
/// In steps of 1, 2 or 5 times a power of ten, from 0. Any number that is finite has an axis, whose ends are finite.
HeightAxis number_axis(double highest);
/// The same from `lowest`, or from 0 where that is not much lower; to 0 where both are the same below it. Logarithmic,
/// in powers of ten, where the highest is more than a hundred times the lowest.
HeightAxis range_axis(double lowest, double highest);
/// The same, never logarithmic.
HeightAxis linear_axis(double lowest, double highest);
/// For values above 0, from a power of ten to another; over less than two of them also from 2 and 5 times one.
HeightAxis logarithmic_axis(double lowest, double highest);

/// An axis of the values of a swept key, in the order given: numbers where they lie, on a linear or a logarithmic
/// scale, whichever spreads them more evenly; texts side by side.
struct ValueAxis {
  bool is_continuous = true;  ///< numbers, so that a line between two points means something
  bool is_logarithmic = false;
  std::vector<double> positions;  ///< one for each value, from 0 to 1, with room at both ends
};
ValueAxis value_axis(const std::vector<std::string>& values);

}  // namespace trainer
