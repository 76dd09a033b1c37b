#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace CLI {
class App;
}

namespace trainer {

/// CONFIG [key=value …]: how every command names its experiment.
struct ExperimentArguments {
  std::string config_path;
  std::vector<std::string> overrides;

  void add_to(CLI::App& command);
  /// Throws ConfigError with every mistake.
  Experiment load() const;
  /// "COMMAND CONFIG key=value …", to paste.
  std::vector<std::string> words(const std::string& command) const;
};

}  // namespace trainer
