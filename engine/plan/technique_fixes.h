#pragma once

#include <string>
#include <vector>

#include "engine/plan/change.h"

namespace trainer {

/// A way to hold less memory that an experiment does not use yet.
struct TechniqueFix {
  Experiment changed;
  std::vector<std::string> set;  ///< overrides to paste
  std::string what;
  Numbers numbers = Numbers::same_bits;
  bool is_combination = false;
};

/// The techniques of `memory:` and `train:` that this experiment could turn on, one at a time: those that change no
/// result, and all of these together; then those that round, and everything together.
std::vector<TechniqueFix> technique_fixes(const Experiment& experiment);

}  // namespace trainer
