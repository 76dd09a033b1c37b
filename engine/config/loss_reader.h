#pragma once

#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Reads the terms of a loss by loss_term_fields(). Reports what is wrong; empty where that leaves none.
std::vector<LossConfig> read_losses(const Node& node, SourceSet& sources);

/// The list that read_losses() reads back to the same terms; null where one loss alone says it all.
Node node_of_losses(const std::vector<LossConfig>& losses);

}  // namespace trainer
