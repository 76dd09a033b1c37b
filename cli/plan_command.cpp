#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/compiled_experiment.h"
#include "cli/device_factory.h"
#include "cli/experiment_arguments.h"
#include "cli/terminal.h"
#include "engine/bytes.h"
#include "engine/plan/allocator_options.h"
#include "engine/report/event_json.h"
#include "engine/report/glossary.h"
#include "engine/report/plan_report.h"

namespace trainer {
namespace {

struct PlanArguments {
  ExperimentArguments experiment;
  std::string capacity;
  bool json = false, quiet = false, words = false;
};

std::int64_t parse_capacity(const std::string& text) {
  const std::optional<std::int64_t> num_bytes = parse_bytes(text);
  if (!num_bytes)
    throw ConfigError(
        fmt::format("--capacity '{}' is not a size; write bytes or a unit, such as 1500MB or 2GiB", text));
  return *num_bytes;
}

PlanFindings find_plan(const Experiment& experiment, const PlanArguments& arguments) {
  const CompiledExperiment compiled = compile_experiment(experiment);
  const Capacity capacity = arguments.capacity.empty() ? capacity_of(experiment, *compiled.device)
                                                       : Capacity{parse_capacity(arguments.capacity), "--capacity"};
  const RunSchedule schedule(experiment, compiled.data);
  PlanFindings findings;
  findings.experiment_name = experiment.name;
  findings.config_path = arguments.experiment.config_path;
  findings.device_kind = compiled.device->kind();
  findings.device_name = compiled.device->name();
  findings.capacity = capacity.num_bytes;
  findings.capacity_origin = capacity.origin;
  findings.batch_size = schedule.batch_size();
  findings.total_steps = schedule.total_steps();
  findings.outside_allocator = compiled.device->outside_allocator();
  findings.layer_labels = layer_labels(compiled.program);
  findings.plan = make_memory_plan(compiled.program, schedule, capacity.num_bytes, allocator_options(experiment));
  if (!findings.plan.fits) {
    findings.unbounded =
        make_memory_plan(compiled.program, schedule, unlimited_capacity, allocator_options(experiment));
    findings.fixes = find_fixes(experiment, compiled.data, *compiled.device, capacity.num_bytes,
                                arguments.capacity.empty() ? compiled.device->available_bytes() : 0);
    findings.largest_batch_size = largest_fitting_batch_size(experiment, compiled.data, *compiled.device,
                                                             capacity.num_bytes, schedule.batch_size());
  }
  return findings;
}

ExitCode plan(const PlanArguments& arguments) {
  const PlanFindings findings = find_plan(arguments.experiment.load(), arguments);
  if (arguments.json)
    fmt::print("{}\n", plan_json(findings));
  else if (!arguments.quiet)
    fmt::print("{}", plan_report(findings, style_for(stdout)));
  if (arguments.words && !arguments.json && !arguments.quiet)
    fmt::print("\nWords\n{}", memory_glossary(style_for(stdout)));
  return findings.plan.fits ? ExitCode::done : ExitCode::does_not_fit;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand("plan", "Tell to the byte what a run will hold, without running it");
  arguments->experiment.add_to(*command);
  command
      ->add_option("--capacity", arguments->capacity,
                   "Memory to fit into, such as 2GiB; else memory.limit or what is available")
      ->type_name("SIZE");
  command->add_flag("--json", arguments->json, "Print the plan as one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing; the exit code tells");
  command->add_flag("--words", arguments->words, "Explain the words below the report");
  command->footer(
      "Exits with 4 where it does not fit, and names changes that do.\n\n"
      "Example:\n  trainer plan configs/quickstart.yaml --capacity 16MiB train.batch_size=512");
  command->callback([arguments, &action] { action = [arguments] { return plan(*arguments); }; });
}

}  // namespace trainer
