#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/train/measure/step_timing.h"

namespace trainer {

/// A training of synthetic data, and what its steps took.
struct TimedNetwork {
  CompiledExperiment compiled;
  StepTiming timing;
};

/// Compiles the experiment in `yaml` for `device`, settled for what it has free, and times its steps. `name` is what
/// errors say. Throws what time_steps throws.
TimedNetwork time_network(std::string_view yaml, const std::string& name, const std::vector<std::string>& overrides,
                          Device& device, const TimingOptions& options);

}  // namespace trainer
