#include "engine/report/run/layer_group_summary.h"

#include "engine/graph/trained_layers.h"

namespace trainer {

std::vector<LayerGroupSummary> summarize_layer_groups(const Program& program, const Experiment& experiment) {
  const std::vector<LayerGroup>& groups = experiment.groups;
  std::vector<LayerGroupSummary> summaries(groups.size());
  if (groups.empty()) return summaries;
  const std::vector<double> rates = numbers_of_groups(experiment.optimizer.lr, groups, "optimizer.lr");
  const std::vector<double> decays =
      numbers_of_groups(experiment.optimizer.weight_decay, groups, "optimizer.weight_decay");
  for (std::size_t g = 0; g < groups.size(); ++g) {
    summaries[g].name = groups[g].name;
    summaries[g].learning_rate = rates[g];
    summaries[g].weight_decay = decays[g];
  }
  std::vector<char> is_counted(program.layers.size(), 0);
  for (const Parameter& parameter : program.parameters) {
    if (parameter.is_frozen() || !parameter.is_weight) continue;
    LayerGroupSummary& summary = summaries[static_cast<std::size_t>(parameter.group)];
    summary.num_parameters += parameter.type.num_elements();
    if (parameter.trainable) summary.num_trained += parameter.type.num_elements();
    char& counted = is_counted[static_cast<std::size_t>(parameter.layer)];
    if (counted == 0) ++summary.num_layers;
    counted = 1;
  }
  return summaries;
}

}  // namespace trainer
