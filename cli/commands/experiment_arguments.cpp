#include "cli/commands/experiment_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/terminal/terminal.h"
#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/config/sweep/sweep_grid.h"
#include "engine/errors.h"
#include "engine/report/text/shell_words.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

/// Whether it is a sweep over values that can be.
bool has_several_values(const std::string& config_path, const std::vector<std::string>& overrides,
                        const std::string& override_text) {
  constexpr std::size_t most_points = 64;
  try {
    const SweepGrid grid({override_text});
    const std::vector<std::string>& values = grid.keys().front().values;
    if (values.size() < 2 || values.size() > most_points) return false;
    for (const std::string& value : values) {
      std::vector<std::string> one = overrides;
      std::replace(one.begin(), one.end(), override_text, grid.keys().front().key + "=" + value);
      load_experiment(config_path, one);
    }
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

void ExperimentArguments::add_to(CLI::App& command) {
  command.add_option("CONFIG", config_path, "The experiment, a YAML file")->required()->type_name("");
  command.add_option("key=value", overrides, "Replaces a value of the file: train.batch_size=64")->type_name("...");
}

void ExperimentArguments::add_run_to(CLI::App& command) {
  command
      .add_option("RUN", config_path,
                  "The folder of a run (its best weights) or a checkpoint, or a configuration with weights")
      ->required()
      ->type_name("");
  command.add_option("key=value", overrides, "Replaces a value of the configuration")->type_name("...");
}

void ExperimentArguments::add_stage_to(CLI::App& command) {
  command.add_option("--stage", stage, "Of several stages this one alone")->type_name("NAME");
}

Experiment ExperimentArguments::load_one(std::int64_t* num_ranks) const {
  Experiment experiment = load();
  if (!experiment.stages.empty())
    throw ConfigError(
        fmt::format("{} has several stages: --stage says which, one of {}", config_path, stage_names(experiment)));
  if (num_ranks != nullptr) *num_ranks = total_ranks(experiment.parallel);
  leave_ranks(experiment);
  return experiment;
}

Experiment ExperimentArguments::load() const try {
  Experiment experiment = load_experiment(config_path, overrides);
  if (stage.empty()) return experiment;
  return *experiment.stages[find_stage(experiment, stage, "--stage")].experiment;
} catch (const ConfigError& error) {
  const std::string message = error.what();
  const auto is_refused_list = [&](const std::string& word) {
    return message.find(fmt::format("argument '{}'", word)) != std::string::npos &&
           has_several_values(config_path, overrides, word);
  };
  if (std::none_of(overrides.begin(), overrides.end(), is_refused_list)) throw;
  std::vector<std::string> sweep = words("sweep");
  sweep.emplace_back("--plan-only");
  throw ConfigError(fmt::format("{}\n  several values are a sweep: '{}'; without --plan-only it runs them", message,
                                trainer_command(shell_words(sweep))),
                    error.diagnostics());
}

void tell_of_one_process(std::int64_t num_ranks, std::string_view command) {
  if (num_ranks > 1)
    write_text(stderr, fmt::format("{} ranks are configured; '{}' runs as one process, on the whole batch.\n",
                                   num_ranks, command));
}

void add_ranks(ExperimentArguments& arguments, std::int64_t num_ranks) {
  if (num_ranks == 0) return;
  std::int64_t of_each = 1;
  try {
    const ParallelConfig parallel = arguments.load().parallel;
    of_each = parallel.pipeline * parallel.tensor;
  } catch (const ConfigError&) {  // told of where the configuration is read with its ranks
  }
  if (num_ranks % of_each != 0)
    throw ConfigError(
        fmt::format("{} ranks are not shared evenly: parallel.pipeline and tensor take {} for each part of a batch",
                    num_ranks, of_each));
  arguments.overrides = merged_overrides(arguments.overrides, {fmt::format("parallel.data={}", num_ranks / of_each)});
}

std::vector<std::string> ExperimentArguments::words(const std::string& command) const {
  std::vector<std::string> words = {command, config_path};
  words.insert(words.end(), overrides.begin(), overrides.end());
  if (!stage.empty() && command != "run") words.insert(words.end(), {"--stage", stage});
  return words;
}

}  // namespace trainer
