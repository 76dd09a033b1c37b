#pragma once

#include <string>

namespace trainer {

/// The safetensors file, or the index of its shards, that is meant by `path`: a file itself; of a checkpoint's folder
/// its model, which may be in shards, and of a folder of shards their index; of a run's folder the model of its best
/// checkpoint, where evaluations chose one, else of its newest. DataError for a folder without one.
std::string initial_weights_file(const std::string& path);

/// Whether a folder holds a model itself, in one file or in shards with their index, as a checkpoint's does.
bool holds_weights(const std::string& folder);

}  // namespace trainer
