#pragma once

#include <memory>

#include "datasets/prediction/input_paths.h"
#include "datasets/prediction/prediction_input.h"
#include "engine/config/experiment.h"
#include "engine/graph/preprocessing.h"

namespace trainer {

// Note [Tables to predict from]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A row becomes features by what was kept with the model (engine/graph/preprocessing.h), not by what the table holds:
// its columns are found by their names, wherever they stand, or by their numbers where data.header is false; others,
// such as targets, are not looked at. A cell without a value becomes what stands for it, where training found that, and
// else is an error of its row, as is a cell that is no number. A category that no training sample has is 0 in all of
// its features.

/// Rows of the tables that `paths` names, one input each. DataError where `preprocessing` does not tell how rows become
/// `num_features` features.
std::unique_ptr<InputStream> table_inputs(InputPaths paths, const DataConfig& config,
                                          const Preprocessing& preprocessing, std::int64_t num_features);

}  // namespace trainer
