#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// A way to hold less memory that an experiment does not use yet.
struct TechniqueFix {
  Experiment changed;
  std::vector<std::string> set;  ///< overrides to paste
  std::string what;
  bool same_result = true;  ///< bit for bit, or up to rounding
};

/// The techniques of the configuration's `memory:` and `train:` that this experiment could turn on, one at a time,
/// those that change no result first; then all of these together, and with them those that do.
std::vector<TechniqueFix> technique_fixes(const Experiment& experiment);

}  // namespace trainer
