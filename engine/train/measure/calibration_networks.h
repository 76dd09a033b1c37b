#pragma once

#include <span>

namespace trainer {

/// A training that `trainer bench` times to learn the rates of a machine.
struct CalibrationNetwork {
  const char* name;
  const char* yaml;         ///< without name and device
  bool needs_bf16 = false;  ///< which older GPUs lack
};

/// Together their steps have every kind of op that a step of any experiment can have, at small, middle and large sizes,
/// in f32 and in 16 bit. Their shapes are in no configuration that is shipped, so that a prediction for one of those is
/// none of what was measured.
std::span<const CalibrationNetwork> calibration_networks();

}  // namespace trainer
