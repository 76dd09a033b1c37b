#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// A training that `trainer bench` times to learn the rates of a machine.
struct CalibrationNetwork {
  std::string name;
  std::string_view yaml;  ///< without name and device: calibration_networks/<number>_<name>.yaml
};

/// Together their steps have every kind of op that a step of any experiment can have, but for embeddings of tokens, at
/// small, middle and large sizes, in f32 and in 16 bit. Widths are of the kind that people choose, multiples of 16, but
/// no powers of two; sizes lie on both sides of the caches of a usual machine. Their shapes are in no configuration
/// that is shipped, so that a prediction for one of those is none of what was measured.
std::vector<CalibrationNetwork> calibration_networks();

}  // namespace trainer
