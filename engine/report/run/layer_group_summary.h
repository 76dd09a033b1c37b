#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/program/program.h"

namespace trainer {

/// What one of model.groups is made of, and how it is trained.
struct LayerGroupSummary {
  std::string name;
  std::int64_t num_layers = 0;  ///< with parameters of their own
  std::int64_t num_parameters = 0, num_trained = 0;
  double learning_rate = 0;  ///< before the schedule
  double weight_decay = 0;
};

/// In the order of the experiment's groups, which the program was compiled from; none where it has none.
std::vector<LayerGroupSummary> summarize_layer_groups(const Program& program, const Experiment& experiment);

}  // namespace trainer
