#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/graph/preprocessing.h"

namespace trainer {

/// DataDescription::inputs of what a model trained on such data predicts from. Nothing of the data is looked at where
/// its keys and what was kept with the model tell it; else as describe_data() tells it, which throws where files are
/// missing.
DataDescription describe_inputs(const DataConfig& config, std::uint64_t seed, const Preprocessing& preprocessing);

}  // namespace trainer
