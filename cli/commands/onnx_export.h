#pragma once

#include <string>

#include "cli/commands/experiment_arguments.h"
#include "engine/errors.h"

namespace trainer {

/// `trainer export RUN --onnx FILE`.
struct OnnxExportArguments {
  ExperimentArguments experiment;  ///< a run's folder, a checkpoint's, or a configuration
  std::string weights, output;
  bool overwrite = false, json = false, quiet = false;
};

/// Writes the evaluation's forward pass with the weights. Throws ConfigError, DataError.
ExitCode export_onnx(const OnnxExportArguments& arguments);

}  // namespace trainer
