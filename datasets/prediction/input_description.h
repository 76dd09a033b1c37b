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

/// Fills in how many threads read such inputs, and what each holds, of images an estimate of usual_image_side both
/// ways: nobody has looked at them. num_train becomes 1, for what only asks how large a sample is.
void count_input_readers(const DataConfig& config, DataDescription& data);

/// Height and width that memory is estimated for.
inline constexpr std::int64_t usual_image_side = 2048;

}  // namespace trainer
