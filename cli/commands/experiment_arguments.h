#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

  std::string stage;  ///< --stage; empty: not given

  void add_to(CLI::App& command);
  /// RUN in place of CONFIG, which that may be, too.
  void add_run_to(CLI::App& command);
  /// --stage NAME, of commands that look at one stage.
  void add_stage_to(CLI::App& command);
  /// The stage that --stage names, or the whole. Throws ConfigError with every mistake.
  Experiment load() const;
  /// The same for what one process does with one stage: ConfigError where there are several and none is named. How many
  /// ranks were asked for goes to `num_ranks`.
  Experiment load_one(std::int64_t* num_ranks = nullptr) const;
  /// "COMMAND CONFIG key=value …", to paste.
  std::vector<std::string> words(const std::string& command) const;
};

/// Says on stderr that `command` leaves the ranks out that were asked for, where there are several.
void tell_of_one_process(std::int64_t num_ranks, std::string_view command);

/// What --ranks adds to them; 0: it was not given.
void add_ranks(ExperimentArguments& arguments, std::int64_t num_ranks);

}  // namespace trainer
