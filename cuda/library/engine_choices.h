#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cuda/library/convolution.h"

namespace trainer::cuda {

/// The whole call in one line, as a key in files and maps.
std::string text_key(const ConvolutionCall& call);

/// (XDG_CACHE_HOME or ~/.cache)/trainer/convolutions-<device name>-<cuDNN's version>.json. Throws DataError where
/// neither variable is set.
std::string engine_choices_path(const std::string& device_name, std::int64_t cudnn_version);

/// Which engine was the fastest for each convolution that was timed, kept in a JSON file: an object from text_key to
/// the engine's name.
class EngineChoices {
 public:
  /// Reads `path` where it exists. Throws DataError where that is no such file.
  explicit EngineChoices(std::string path);

  std::optional<std::string> find(const ConvolutionCall& call) const;
  /// Adds a choice to the file, beside those that other processes have stored there meanwhile. Whoever reads the file
  /// sees all of it or the one before. Throws DataError where it cannot be written.
  void store(const ConvolutionCall& call, const std::string& engine);

 private:
  std::string path_;
  std::map<std::string, std::string> engines_;
};

}  // namespace trainer::cuda
