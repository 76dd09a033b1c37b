#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cuda/library/convolution.h"

namespace trainer::cuda {

/// The whole call in one line, as a key in files and maps.
std::string text_key(const ConvolutionCall& call);

/// (XDG_CACHE_HOME or ~/.cache)/trainer/<what>-<device name>-<the library's version>.json; `what` was timed:
/// "convolutions". Throws DataError where neither variable is set.
std::string engine_choices_path(const std::string& what, const std::string& device_name, std::int64_t version);

/// The device's name in what cuDNN calls its properties, "" where they have none. Throws DeviceError for what are none.
std::string device_name_in(const std::string& properties_json);
/// 90 for 9.0. Throws DeviceError for what are none, or do not tell.
int compute_capability_in(const std::string& properties_json);

/// Which of a library's ways was the fastest for each call that was timed, kept in a JSON file: an object from the
/// call's text_key to the way's name.
class EngineChoices {
 public:
  /// Reads `path` where it exists; a damaged file counts as none, and is replaced by the first that is stored.
  explicit EngineChoices(std::string path);

  std::optional<std::string> find(const std::string& key) const;
  /// Adds a choice, and to the file beside those that other processes have stored there meanwhile. Whoever reads the
  /// file sees all of it or the one before. Where it cannot be read or written the choice is this process's alone.
  void store(const std::string& key, const std::string& engine);
  /// Tells of the first choice that is not in the file, and why; empty where all are.
  const std::string& note() const { return note_; }

 private:
  void write_file();

  std::string path_, note_;
  std::map<std::string, std::string> engines_;
};

}  // namespace trainer::cuda
