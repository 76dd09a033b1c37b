#pragma once

#include <memory>
#include <optional>

#include "datasets/prediction/image_preparation.h"
#include "datasets/prediction/input_paths.h"
#include "datasets/prediction/prediction_input.h"
#include "engine/config/experiment.h"

namespace trainer {

/// Whether a file is called as arrays are: .npy, .npz, .safetensors, or idx…-ubyte, plain or .gz.
bool is_called_array(std::string_view path);

/// Image files, and samples of arrays, an input each, for a model that takes `sample`. Images, and pixels of arrays, go
/// through `prepared`; a model without it takes arrays alone, of numbers. Arrays are .npy, .npz and safetensors files
/// that are not packed, and IDX files, plain or gzip, told by their names; of several in a file data.fields says which,
/// else what samples are usually called. A file that cannot be read is one input with that error.
std::unique_ptr<InputStream> sample_inputs(InputPaths paths, const DataConfig& config, const TensorType& sample,
                                           std::optional<PreparedImage> prepared);

}  // namespace trainer
