#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/device_factory.h"
#include "cli/interrupt_signals.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/sweep_progress.h"
#include "cli/terminal/terminal.h"
#include "engine/sweep/sweep.h"

namespace trainer {
namespace {

struct SweepArguments {
  SweepOptions options;
  std::vector<std::string> keys_and_values;  ///< Note [Sweeps] in engine/config/sweep/sweep_grid.h
  bool json = false, quiet = false;

  SweepProgress::Form form() const {
    if (json) return SweepProgress::Form::json;
    return quiet ? SweepProgress::Form::none : SweepProgress::Form::table;
  }
};

ExitCode sweep(const SweepArguments& arguments) {
  const SweepGrid grid(arguments.keys_and_values);
  std::signal(SIGPIPE, SIG_IGN);  // a sweep outlives whoever reads what it prints
  Interruption interruption;
  const InterruptSignals signals(interruption, "\nEnding the sweep; the same command goes on with it.\n");
  SweepProgress progress(arguments.form(), grid.keys(), arguments.options.plan_only, style_for(stdout));
  RatesWarnings warnings;
  return run_sweep(arguments.options, grid, MachineDevices(), interruption, progress,
                   [&](const std::string& problem) { warnings.tell(problem); });
}

}  // namespace

void add_sweep_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<SweepArguments>();
  SweepOptions& options = arguments->options;
  options.version = TRAINER_VERSION;
  CLI::App* command = app.add_subcommand("sweep", "Run or plan every combination of values, one row each");
  command->add_option("CONFIG", options.config_path, "The experiment, a YAML file")->required()->type_name("");
  command
      ->add_option("key=values", arguments->keys_and_values,
                   "Swept: 16,32,64 or 16..512:*2 or 8..64:+8; with one value the same for all points")
      ->type_name("...");
  CLI::Option* plan_only = command->add_flag(
      "--plan-only", options.plan_only, "Plan the points instead of running them: what fits, peaks, predicted times");
  command->add_option("--gpu", options.gpu, "With --plan-only: for a GPU that need not be here, such as rtx4090")
      ->type_name("PROFILE")
      ->needs(plan_only);
  command->add_option("--capacity", options.capacity, "With --plan-only: memory to fit into, such as 2GiB")
      ->type_name("SIZE")
      ->needs(plan_only);
  command
      ->add_option_function<std::string>(
          "--stop-on", [arguments](const std::string&) { arguments->options.stop_on_oom = true; },
          "Leave out what is larger in the first key than a point that ran out of memory")
      ->type_name("oom")
      ->check([](const std::string& text) { return text == "oom" ? "" : "'" + text + "' is not 'oom'"; });
  command->add_flag("--overwrite", options.overwrite, "Start anew in a folder that holds a sweep");
  command->add_flag("--keep-checkpoints", options.keep_checkpoints, "Keep the checkpoints of the runs");
  command->add_flag("--json", arguments->json, "Print JSON Lines on stdout, and nothing else there");
  command->add_flag("-q,--quiet", arguments->quiet, "Print only what goes wrong");
  command->footer(
      "Rows (sweep.jsonl, sweep.csv) and a plot (sweep.svg) go to output=FOLDER,\nruns/NAME-sweep if not given. The "
      "same command goes on where it stopped; more\nvalues of the same keys are added.\n\n" +
      examples({"sweep configs/quickstart.yaml 'train.batch_size=64..4096:*4' memory.limit=64MiB",
                "sweep configs/quickstart.yaml train.batch_size=64,256 train.amp=off,bf16 train.steps=50",
                "sweep configs/cifar10_resnet18.yaml 'train.batch_size=64..1024:*2' --plan-only --gpu rtx4090"}));
  command->callback([arguments, &action] { action = [arguments] { return sweep(*arguments); }; });
}

}  // namespace trainer
