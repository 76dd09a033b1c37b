#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// A mark of an axis: `at` from 0, its beginning, to 1.
struct AxisTick {
  double at = 0;
  std::string label;
};

/// An axis from 0 on, for heights; its end is a round number.
struct HeightAxis {
  double end = 1;
  std::vector<AxisTick> ticks;  ///< the first is 0

  double at(double value) const { return value / end; }
};

/// At least up to `highest`, in steps that are round in binary units: 0 B, 256.00 MiB, 512.00 MiB.
HeightAxis bytes_axis(double highest);
/// In steps of 1, 2 or 5 times a power of ten.
HeightAxis number_axis(double highest);

/// An axis of the values of a swept key, in the order given: numbers where they lie, on a linear or a logarithmic
/// scale, whichever spreads them more evenly; texts side by side.
struct ValueAxis {
  bool is_continuous = true;  ///< numbers, so that a line between two points means something
  bool is_logarithmic = false;
  std::vector<double> positions;  ///< one for each value, from 0 to 1, with room at both ends
};
ValueAxis value_axis(const std::vector<std::string>& values);

}  // namespace trainer
