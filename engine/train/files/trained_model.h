#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/graph/preprocessing.h"

namespace trainer {

/// A model that was trained, and what it is used with.
struct TrainedModel {
  std::string path;       ///< as given
  Experiment experiment;  ///< without the weights that training began with
  DataDescription data;   ///< what it takes: inputs, and the threads that read them
  Preprocessing preprocessing;
  std::string weights_file;  ///< safetensors
};

/// Of a folder that `trainer export --to` wrote (Note [Exported models] in exported_model.h), whose size and sum of
/// weights are compared; of a checkpoint's folder; or of a run's, whose best checkpoint it is. `overrides` are
/// "key=value" over its configuration, of keys that leave the model and its samples as they are, and of how
/// many tokens a window of a text has; others are a ConfigError. Throws DataError for another folder, and for what is
/// damaged.
TrainedModel read_trained_model(const std::string& path, const std::vector<std::string>& overrides);

/// Compares the weights of a folder that `trainer export --to` wrote with their size and sum there; DataError.
void verify_exported_weights(const std::string& folder);

/// Whether a word is "key=value" with a key of a configuration, and not the name of a file.
bool is_override(const std::string& word);

}  // namespace trainer
