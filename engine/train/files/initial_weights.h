#pragma once

#include <string>

namespace trainer {

/// The safetensors file, or the index of its shards, that is meant by `path`: a file itself; of a checkpoint's folder
/// its model; of a folder of shards their index; of a run's folder the model of its best checkpoint, where evaluations
/// chose one, else of its newest. DataError for a folder without one.
std::string initial_weights_file(const std::string& path);

}  // namespace trainer
