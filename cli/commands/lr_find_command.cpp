#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>

#include "cli/bounded_spin.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/commands/output_file.h"
#include "cli/device_factory.h"
#include "cli/interrupt_signals.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/planning_progress.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/config/override_text.h"
#include "engine/findings/find_plan.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/report/memory/out_of_memory_report.h"
#include "engine/report/plan/plan_report.h"
#include "engine/report/run/range_test_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/data_checks.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/files/replaced_file.h"
#include "engine/train/measure/range_test_run.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

struct LrFindArguments {
  ExperimentArguments experiment;
  std::string weights, svg;
  RangeTestOptions test;
  bool overwrite = false, json = false, quiet = false;
};

/// Shows on a terminal how far the test is.
class RangeTestProgress {
 public:
  explicit RangeTestProgress(bool shows) : shows_(shows && can_redraw(stderr)) {}
  ~RangeTestProgress() {
    if (is_drawn_) write_exactly(stderr, erased_line);
  }
  RangeTestProgress(const RangeTestProgress&) = delete;
  RangeTestProgress& operator=(const RangeTestProgress&) = delete;

  void show(const RangeTest& test) {
    if (!shows_ || test.losses().empty()) return;
    if (is_drawn_) write_exactly(stderr, erased_line);
    const std::string text = fmt::format("step {} of {}, learning rate {:.2e}, loss {:.4g}", test.losses().size(),
                                         test.options().steps, test.rates().back(), test.smoothed().back());
    is_drawn_ =
        write_text(stderr, cut_to_width(text, static_cast<std::size_t>(std::max(terminal_width(stderr) - 1, 1))));
    std::fflush(stderr);
  }

 private:
  const bool shows_;
  bool is_drawn_ = false;
};

/// The report of `plan` of what the test trains, on stderr: who holds the memory, and what would fit.
ExitCode tell_that_it_does_not_fit(const LrFindArguments& arguments, const ExperimentArguments& given,
                                   const Experiment& experiment) {
  PlanningProgress progress(!arguments.json && !arguments.quiet);
  RatesWarnings warnings;
  const PlanFindings findings =
      find_plan({.experiment = experiment,
                 .config_path = given.config_path,
                 .overrides = given.overrides,
                 .gpus = {},
                 .capacities = {},
                 .verify = false,
                 .watch = &progress},
                MachineDevices(), [&](const std::string& problem) { warnings.tell(problem); });
  write_text(stderr, plan_report(findings, style_for(stderr)));
  return ExitCode::out_of_memory;
}

/// Memory that was there when it was planned is not there any more.
ExitCode tell_out_of_memory(const ProgramOutOfMemory& error, const Device& device, const ExperimentArguments& given) {
  write_text(stderr,
             fmt::format("{}\nThe test fits what the device had free before it, and does not now: see what else "
                         "holds its memory ('{}'), or what a run holds ('{}').\n",
                         out_of_memory_message(error.failure(), device.kind()), trainer_command("doctor"),
                         trainer_command(shell_words(given.words("plan")))));
  return ExitCode::out_of_memory;
}

ExitCode exit_code_of_test(const RangeTest& test) {
  if (test.end() == RangeTestEnd::interrupted) return ExitCode::interrupted;
  const bool suggests = test.suggestions().minimum.has_value();
  return test.end() == RangeTestEnd::not_finite && !suggests ? ExitCode::diverged : ExitCode::done;
}

ExitCode find_rates(const LrFindArguments& arguments) {
  if (!(arguments.test.from < arguments.test.to))
    throw ConfigError(fmt::format("--from is {} and --to {}: the rates rise from one to the other", arguments.test.from,
                                  arguments.test.to));
  bound_spinning();
  refuse_existing(arguments.svg, arguments.overwrite);
  ExperimentArguments given = arguments.experiment;
  if (!arguments.weights.empty()) {
    Experiment named;
    named.weights.file = arguments.weights;
    given.overrides = merged_overrides(given.overrides, {override_of("weights.file", named)});
  }
  std::int64_t num_ranks = 1;
  const Experiment experiment = given.load_one(&num_ranks);
  if (!arguments.json && !arguments.quiet) tell_of_one_process(num_ranks, "lr-find");
  const std::unique_ptr<Device> device = make_device(experiment);
  const LoadedData data = load_data(experiment.data, experiment.seed);
  std::optional<WeightFiles> weights;
  if (!experiment.weights.file.empty()) weights = intact_weights(experiment.weights.file);
  check_data(experiment, data);
  const std::int64_t capacity = run_capacity(experiment, data.description, *device, /*dataset_is_loaded=*/true);
  // What a run of the configuration settles, so that the steps are its steps.
  const Experiment tested =
      with_range_test(settle_experiment(experiment, data.description, *device, capacity), arguments.test.steps);
  const CompiledExperiment compiled = compile_experiment(tested, data.description, *device, capacity);
  if (experiment.memory.preflight && !plan_memory(compiled, capacity).fits)
    return tell_that_it_does_not_fit(arguments, given, tested);

  Interruption interruption;
  RangeTestFindings findings{.experiment_name = experiment.name,
                             .device_kind = device->kind(),
                             .device_name = device->name(),
                             .capacity = capacity,
                             .num_parameters = num_parameters(compiled.program),
                             .schedule = experiment.schedule.type,
                             .lr = experiment.optimizer.lr,
                             .run_words = given.words("run"),
                             .override_prefix = experiment.override_prefix,
                             .run = {.test = RangeTest(arguments.test)}};
  try {
    const InterruptSignals signals(interruption, "\nFinishing this step; once more to stop at once.\n");
    RangeTestProgress progress(!arguments.json && !arguments.quiet);
    findings.run = run_range_test(compiled, data, *device, capacity, weights ? &*weights : nullptr, arguments.test,
                                  interruption, [&](const RangeTest& test) { progress.show(test); });
  } catch (const ProgramOutOfMemory& error) {
    return tell_out_of_memory(error, *device, given);
  }
  if (!arguments.svg.empty()) {
    const std::string picture = range_test_plot(findings);
    ReplacedFile file(arguments.svg);
    file.write(picture.data(), picture.size());
    file.finish();
  }
  if (arguments.json)
    write_exactly(stdout, range_test_json(findings) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, range_test_report(findings, style_for(stdout)));
  return exit_code_of_test(findings.run.test);
}

}  // namespace

void add_lr_find_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<LrFindArguments>();
  CLI::App* command = app.add_subcommand("lr-find", "Find learning rates to train with, by a range test");
  arguments->experiment.add_to(*command);
  arguments->experiment.add_stage_to(*command);
  const auto is_rate = [](const std::string& text) {
    double rate = 0;
    const bool is_one = CLI::detail::lexical_cast(text, rate) && std::isfinite(rate) && rate > 0;
    return is_one ? std::string() : fmt::format("'{}' is no number above 0", text);
  };
  command->add_option("--from", arguments->test.from, "The lowest learning rate; 1e-7 if not given")
      ->type_name("RATE")
      ->check(is_rate);
  command->add_option("--to", arguments->test.to, "The highest; 10 if not given")->type_name("RATE")->check(is_rate);
  command->add_option("--steps", arguments->test.steps, "Steps from one to the other; 100 if not given")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{10}, std::int64_t{100'000}));
  command
      ->add_option("--weights,--from-run", arguments->weights,
                   "Start from saved weights, as weights.file says: a file, or the folder of a checkpoint or a run")
      ->type_name("PATH");
  command->add_option("--svg", arguments->svg, "Write the curve as a picture")->type_name("FILE");
  command->add_flag("--overwrite", arguments->overwrite, "Replace that picture where it exists");
  command->add_flag("--json", arguments->json, "Print the event lr_find as one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print only what goes wrong");
  command->footer(
      "Trains as 'run' would, with a rate that grows from step to step, until the\nloss explodes; writes no run, and "
      "leaves every file as it is.\n\n" +
      examples(
          {"lr-find configs/quickstart.yaml", "lr-find configs/quickstart.yaml optimizer.type=sgd --svg rates.svg"}));
  command->callback([arguments, &action] { action = [arguments] { return find_rates(*arguments); }; });
}

}  // namespace trainer
