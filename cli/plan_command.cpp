#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/compiled_experiment.h"
#include "cli/experiment_arguments.h"
#include "cli/gpu_profile.h"
#include "cli/plan_target.h"
#include "cli/terminal.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/fixes.h"
#include "engine/program/offload.h"
#include "engine/report/event_json.h"
#include "engine/report/glossary.h"
#include "engine/report/plan_report.h"

namespace trainer {
namespace {

struct PlanArguments {
  ExperimentArguments experiment;
  std::string gpu, capacity;
  bool json = false, quiet = false, words = false;
};

/// What `--gpu` takes instead of a profile.
constexpr const char* list_of_profiles = "list";

/// Whether the program runs an op whose scratch a described device may only know a bound of.
bool has_convolution(const Program& program) {
  return std::any_of(program.calls.begin(), program.calls.end(),
                     [](const OpCall& call) { return name_of(call.op.kind).starts_with("conv2d"); });
}

PlanFindings find_plan(const Experiment& asked, const PlanArguments& arguments) {
  const PlanTarget target = find_plan_target(asked, arguments.gpu, arguments.capacity);
  const DeviceModel& device = *target.device;
  const std::int64_t capacity = target.capacity.num_bytes;
  const CompiledExperiment compiled = compile_experiment(asked, device, capacity);
  const Experiment& experiment = compiled.experiment;
  const RunSchedule schedule(experiment, compiled.data);
  PlanFindings findings;
  findings.experiment_name = experiment.name;
  findings.config_path = arguments.experiment.config_path;
  findings.device_kind = device.kind();
  findings.device_name = device.name();
  findings.capacity = capacity;
  findings.capacity_origin = target.capacity.origin;
  findings.batch_size = schedule.batch_size();
  findings.total_steps = schedule.total_steps();
  findings.outside_allocator = device.outside_allocator();
  findings.offload_bytes = offload_bytes(compiled.program);
  findings.profile = target.profile;
  if (has_convolution(compiled.program)) findings.workspace_bound = device.workspace_bound();
  findings.layer_labels = layer_labels(compiled.program);
  findings.flops = step_flops(compiled.program, schedule);
  findings.plan = make_memory_plan(compiled.program, schedule, capacity, allocator_options(experiment));
  if (!findings.plan.fits) {
    findings.unbounded =
        make_memory_plan(compiled.program, schedule, unlimited_capacity, allocator_options(experiment));
    Planner planner(device, target.rates);
    findings.fixes =
        find_fixes(planner, asked, compiled.data, capacity, target.capacity_given ? 0 : target.available_bytes);
    findings.largest_batch_size =
        largest_fitting_batch_size(planner, experiment, compiled.data, capacity, schedule.batch_size());
  }
  return findings;
}

ExitCode list_profiles(const PlanArguments& arguments) {
  const std::vector<GpuProfile> profiles = shipped_gpu_profiles();
  if (arguments.json)
    fmt::print("{}\n", gpu_profile_json(profiles));
  else if (!arguments.quiet)
    fmt::print("{}", gpu_profile_table(profiles, style_for(stdout)));
  return ExitCode::done;
}

ExitCode plan(const PlanArguments& arguments) {
  if (arguments.gpu == list_of_profiles) return list_profiles(arguments);
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
  CLI::Option* config = command->get_option("CONFIG")->required(false);
  command
      ->add_option("--gpu", arguments->gpu,
                   "Plan for a GPU that need not be here: its profile, such as rtx4090, or 'list'")
      ->type_name("PROFILE");
  command
      ->add_option("--capacity", arguments->capacity,
                   "Memory to fit into, such as 2GiB; else memory.limit or what is available")
      ->type_name("SIZE");
  command->add_flag("--json", arguments->json, "Print the plan as one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing; the exit code tells");
  command->add_flag("--words", arguments->words, "Explain the words below the report");
  command->footer(
      "Exits with 4 where it does not fit, and names changes that do.\n\n"
      "Examples:\n  trainer plan configs/quickstart.yaml --capacity 16MiB train.batch_size=512\n"
      "  trainer plan configs/cifar10_resnet18.yaml --gpu rtx3060-12gb\n  trainer plan --gpu list");
  command->callback([arguments, config, &action] {
    if (config->count() == 0 && arguments->gpu != list_of_profiles) throw CLI::RequiredError("CONFIG");
    action = [arguments] { return plan(*arguments); };
  });
}

}  // namespace trainer
