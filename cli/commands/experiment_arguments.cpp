#include "cli/commands/experiment_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "engine/config/load_experiment.h"
#include "engine/config/sweep/sweep_grid.h"
#include "engine/errors.h"
#include "engine/report/text/shell_words.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

/// A list of devices is none: trainer trains on one.
bool has_several_values(const std::string& override_text) {
  if (override_text.starts_with("device.type=")) return false;
  try {
    return SweepGrid({override_text}).points().size() > 1;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

void ExperimentArguments::add_to(CLI::App& command) {
  command.add_option("CONFIG", config_path, "The experiment, a YAML file")->required()->type_name("");
  command.add_option("key=value", overrides, "Replaces a value of the file: train.batch_size=64")->type_name("...");
}

Experiment ExperimentArguments::load() const try {
  return load_experiment(config_path, overrides);
} catch (const ConfigError& error) {
  const std::string message = error.what();
  const auto is_refused_list = [&](const std::string& word) {
    return message.find(fmt::format("argument '{}'", word)) != std::string::npos && has_several_values(word);
  };
  if (std::none_of(overrides.begin(), overrides.end(), is_refused_list)) throw;
  std::vector<std::string> sweep = words("sweep");
  sweep.emplace_back("--plan-only");
  throw ConfigError(fmt::format("{}\n  several values are a sweep: '{}'; without --plan-only it runs them", message,
                                trainer_command(shell_words(sweep))),
                    error.diagnostics());
}

std::vector<std::string> ExperimentArguments::words(const std::string& command) const {
  std::vector<std::string> words = {command, config_path};
  words.insert(words.end(), overrides.begin(), overrides.end());
  return words;
}

}  // namespace trainer
