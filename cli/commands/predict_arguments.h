#pragma once

#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/errors.h"
#include "engine/report/prediction/prediction_rows.h"
#include "engine/train/prediction_outputs.h"

namespace trainer {

/// What `trainer predict`, or a stage of `trainer run`, is asked for.
struct PredictArguments {
  std::string model;                           ///< as read_trained_model takes it
  std::vector<std::string> inputs, overrides;  ///< at least one input
  std::string output, masks, batch_size = "auto";
  PredictionRowOptions rows;
  bool lines = false;  ///< of texts: each line is an input
  bool json = false, overwrite = false, quiet = false;
};

/// Throws ConfigError where the options are not of what is predicted, by a model that was trained on such data.
void check_options(const PredictArguments& arguments, const DataConfig& data, const PredictionOutputs& outputs);

/// Predicts on the device `here`, or, where that is null, on the one that the model's configuration names. Throws
/// ConfigError, DataError, DeviceError.
ExitCode predict(const PredictArguments& arguments, Device* here = nullptr);

}  // namespace trainer
