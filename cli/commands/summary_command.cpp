#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/config/stages.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/report/run/summary_table.h"
#include "engine/report/text/shell_words.h"

namespace trainer {
namespace {

struct SummaryArguments {
  ExperimentArguments experiment;
  bool json = false;
};

/// What is shown of an experiment with stages, as a line.
std::string stages_text(const Experiment& experiment, const Style& style) {
  if (experiment.stages.empty()) return "";
  return wrap(fmt::format("Shown is the file without its stages; --stage NAME shows one of {}.",
                          stage_names(experiment)),
              static_cast<std::size_t>(style.width)) +
         '\n';
}

ExitCode summarize(const SummaryArguments& arguments) {
  const Experiment experiment = arguments.experiment.load();
  const std::unique_ptr<Device> device = make_device(experiment);
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  const CompiledExperiment compiled =
      compile_experiment(experiment, data, *device, capacity_of(experiment, data, *device).num_bytes);
  if (arguments.json) {
    write_exactly(stdout, summary_json(compiled.program, experiment) + '\n');
    return ExitCode::done;
  }
  const Style style = style_for(stdout);
  write_text(stdout, fmt::format("{}{}: {}, a batch of {} samples of {}\n{}\n{}\n", experiment.name,
                                 experiment.stage.empty() ? "" : ", stage " + experiment.stage,
                                 format_number_of(num_model_layers(compiled.program), "layer"),
                                 format_count(compiled.program.micro_batches.empty()
                                                  ? 0
                                                  : compiled.program.micro_batches.front().batch_size),
                                 compiled.data.sample_text(), stages_text(experiment, style),
                                 summary_table(compiled.program, experiment, style)));
  constexpr const char* remark =
      "FLOPs are those of one forward pass of the batch. Activations are what each layer makes for the next and "
      "for "
      "backward; layers that work in place make none of their own. How much of it is held at a time, and what is "
      "computed again instead:";
  write_text(stdout, wrap(remark, static_cast<std::size_t>(style.width)) + '\n' +
                         pasted_command(arguments.experiment.words("plan"), style));
  return ExitCode::done;
}

}  // namespace

void add_summary_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<SummaryArguments>();
  CLI::App* command = app.add_subcommand("summary", "Show the layers: shapes, parameters, FLOPs, bytes");
  arguments->experiment.add_to(*command);
  arguments->experiment.add_stage_to(*command);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(examples({"summary configs/quickstart.yaml train.batch_size=32"}));
  command->callback([arguments, &action] { action = [arguments] { return summarize(*arguments); }; });
}

}  // namespace trainer
