#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/bytes.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/run_checks.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/style.h"
#include "engine/train/data_checks.h"

namespace trainer {
namespace {

struct CheckArguments {
  ExperimentArguments experiment;
  bool quiet = false;
};

void require_data_files(const DataConfig& config) {
  const std::vector<std::string> missing = missing_data_files(config);
  if (missing.empty()) return;
  std::string message = missing.size() == 1 ? "a data file is missing:" : "data files are missing:";
  for (const std::string& path : missing) message += "\n  " + path;
  throw DataError(message);
}

ExitCode check(const CheckArguments& arguments) {
  const Experiment experiment = arguments.experiment.load();
  require_data_files(experiment.data);
  const std::unique_ptr<Device> device = make_device(experiment);
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  const Capacity capacity = capacity_of(experiment, data, *device);
  const CompiledExperiment compiled = compile_experiment(experiment, data, *device, capacity.num_bytes);
  // Reads every sample: a file can be damaged behind its header.
  check_data(experiment, load_data(experiment.data, experiment.seed));
  const RunSchedule& schedule = compiled.schedule;
  const MemoryPlan plan = plan_memory(compiled, capacity.num_bytes);
  if (arguments.quiet) return ExitCode::done;

  const Style style = style_for(stdout);
  std::string text = fmt::format("{} {}\n", arguments.experiment.config_path, paint(style, Ink::green, "is valid"));
  text += fmt::format("  model     {}, {}\n",
                      format_number_of(static_cast<std::int64_t>(compiled.program.layers.size()), "layer"),
                      format_number_of(num_trainable_parameters(compiled.program), "parameter"));
  text += fmt::format(
      "  data      {} for training and {} for validation, each {}, {}\n", format_number_of(data.num_train, "sample"),
      format_count(data.num_validation), data.sample_text(),
      data.categorical() ? fmt::format("{} classes", data.num_outputs) : format_number_of(data.num_outputs, "output"));
  text += fmt::format("  run       {}, {} in an epoch, on {} ({})\n", format_number_of(schedule.total_steps(), "step"),
                      format_count(schedule.steps_per_epoch()), device->kind(), device->name());
  if (experiment.train.batch_size.is_automatic())
    text += fmt::format("  batch     {} is what train.batch_size: auto stands for here\n",
                        format_count(schedule.batch_size()));
  if (plan.fits)
    text += fmt::format("  memory    reserves {} of {} ({})\n", format_bytes(plan.peak_reserved),
                        format_bytes(capacity.num_bytes), capacity.origin);
  else
    text += fmt::format("  memory    {} {} ({}); what would:\n{}", paint(style, Ink::red, "does not fit"),
                        format_bytes(capacity.num_bytes), capacity.origin,
                        pasted_command(arguments.experiment.words("plan"), style, "            "));
  for (const std::string& warning : run_warnings(compiled.experiment, schedule))
    text += fmt::format("  {}   {}\n", paint(style, Ink::yellow, "warning"), warning);
  write_text(stdout, wrap_lines(text, static_cast<std::size_t>(style.width)));
  return ExitCode::done;
}

}  // namespace

void add_check_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand("check", "Validate a configuration, its shapes and its data files");
  arguments->experiment.add_to(*command);
  command->add_flag("-q,--quiet", arguments->quiet, "Print mistakes only");
  command->footer(examples({"check configs/quickstart.yaml"}));
  command->callback([arguments, &action] { action = [arguments] { return check(*arguments); }; });
}

}  // namespace trainer
