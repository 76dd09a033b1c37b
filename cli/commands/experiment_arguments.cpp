#include "cli/commands/experiment_arguments.h"

#include <CLI/CLI.hpp>

#include "engine/config/load_experiment.h"

namespace trainer {

void ExperimentArguments::add_to(CLI::App& command) {
  command.add_option("CONFIG", config_path, "The experiment, a YAML file")->required()->type_name("");
  command.add_option("key=value", overrides, "Replaces a value of the file: train.batch_size=64")->type_name("...");
}

Experiment ExperimentArguments::load() const { return load_experiment(config_path, overrides); }

std::vector<std::string> ExperimentArguments::words(const std::string& command) const {
  std::vector<std::string> words = {command, config_path};
  words.insert(words.end(), overrides.begin(), overrides.end());
  return words;
}

}  // namespace trainer
