#pragma once

#include <string>

#include "engine/train/files/weight_files.h"

namespace trainer {

/// WeightFiles of a path as initial_weights_file takes it. What is the model of a checkpoint, or of an exported model,
/// is as it was written, also where a link names it: sizes and checksums are those that are told beside it, in a format
/// that this trainer reads. Throws DataError as read_checkpoint and read_trained_model do.
WeightFiles intact_weights(const std::string& path);

}  // namespace trainer
