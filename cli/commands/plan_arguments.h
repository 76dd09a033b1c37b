#pragma once

#include <string>
#include <vector>

#include "cli/commands/experiment_arguments.h"

namespace trainer {

/// What `trainer plan` was given.
struct PlanArguments {
  ExperimentArguments experiment;
  std::string gpu, capacity;                  ///< as given, with commas
  std::vector<std::string> gpus, capacities;  ///< the entries of these, "all" written out
  bool json = false, quiet = false, words = false, verify = false;

  bool compares() const { return gpus.size() > 1 || capacities.size() > 1; }
};

}  // namespace trainer
