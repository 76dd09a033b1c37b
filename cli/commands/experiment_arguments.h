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
  /// "CONFIG key=value …" as one pastes it.
  std::string pasted() const;
};

}  // namespace trainer
