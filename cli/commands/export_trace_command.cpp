#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/commands/output_file.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/planning_progress.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/terminal.h"
#include "engine/bytes.h"
#include "engine/config/stages.h"
#include "engine/config/text/json_output.h"
#include "engine/findings/gpu_ranks.h"
#include "engine/findings/traced_plan.h"
#include "engine/report/record/run_plan.h"
#include "engine/report/record/run_record.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/trace/memory_snapshot.h"
#include "engine/report/trace/plan_events.h"
#include "engine/report/trace/run_events.h"
#include "engine/report/trace/trace_file.h"
#include "engine/report/trace/traced_step.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

struct ExportTraceArguments {
  ExperimentArguments experiment;  ///< or the folder of a run in its place
  std::string gpu, capacity, pytorch, perfetto;
  std::optional<std::int64_t> rank;
  std::int64_t most_buffers = std::numeric_limits<std::int64_t>::max();
  bool overwrite = false, json = false, quiet = false;

  /// Whether more is asked for than that a run is planned as it ran.
  bool changes_the_plan() const {
    return !experiment.overrides.empty() || !experiment.stage.empty() || !gpu.empty() || !capacity.empty() || rank;
  }
};

/// What is written, and of what.
struct TracedInput {
  std::vector<TracedPlan> plans;  ///< one for each stage
  std::optional<RunRecord> run;
  std::string problem{};  ///< why a run could not be planned again; empty: it was
};

PlanRequest request_of_trace(const ExportTraceArguments& arguments, const std::optional<RunRecord>& run) {
  if (!arguments.gpu.empty() && has_number_of_ranks(arguments.gpu))
    throw ConfigError(
        fmt::format("--gpu '{}': a trace is of one rank; name its GPU alone, and --rank says which", arguments.gpu));
  const ExperimentArguments& given = arguments.experiment;
  if (run)
    return plan_request_of_run(
        *run,
        {.overrides = given.overrides, .stage = given.stage, .gpu = arguments.gpu, .capacity = arguments.capacity},
        MachineDevices());
  PlanRequest request;
  request.experiment = given.load();
  request.config_path = given.config_path;
  request.overrides = given.overrides;
  if (!arguments.gpu.empty()) request.gpus = {arguments.gpu};
  if (!arguments.capacity.empty()) request.capacities = {arguments.capacity};
  return request;
}

TracedInput trace_input(const ExportTraceArguments& arguments) {
  TracedInput input;
  if (names_run(arguments.experiment.config_path)) input.run = read_run(arguments.experiment.config_path);
  const auto find_plans = [&] {
    PlanRequest request = request_of_trace(arguments, input.run);
    if (!arguments.pytorch.empty() && !request.experiment.stages.empty())
      throw ConfigError(fmt::format("{} has several stages, and --pytorch tells of one: --stage says which, one of {}",
                                    arguments.experiment.config_path, stage_names(request.experiment)));
    PlanningProgress progress(!arguments.quiet && !arguments.json);
    request.watch = &progress;
    RatesWarnings warnings;
    const std::int64_t rank = arguments.rank.value_or(input.run ? rank_of_folder(input.run->folder) : 0);
    return find_traced_plans(std::move(request), rank, MachineDevices(),
                             [&](const std::string& problem) { warnings.tell(problem); });
  };
  if (!input.run || !arguments.pytorch.empty()) {
    input.plans = find_plans();
    return input;
  }
  // What a run measured can be shown where its data or device is not.
  try {
    input.plans = find_plans();
  } catch (const DataError& error) {
    input.problem = error.what();
  } catch (const DeviceError& error) {
    input.problem = error.what();
  } catch (const ConfigError& error) {
    if (arguments.changes_the_plan()) throw;
    input.problem = error.what();
  }
  return input;
}

std::int64_t write_pytorch(const ExportTraceArguments& arguments, const TracedInput& input) {
  TraceFile file(arguments.pytorch);
  write_memory_snapshot(input.plans.front(), TRAINER_VERSION, [&](std::string_view bytes) { file.write(bytes); });
  file.finish();
  return file.num_bytes();
}

/// Where a run has the step that a plan is of.
std::int64_t offset_of_plan(const TracedPlan& plan, const RunRecord& run, const RunTimes& times) {
  return times.find(run, plan.findings.stage, plan.trace.step, plan.trace.evaluation).value_or(RunTimes::Span{}).begin;
}

std::int64_t write_perfetto(const ExportTraceArguments& arguments, const TracedInput& input) {
  TraceFile file(arguments.perfetto);
  TraceEventWriter events([&](std::string_view bytes) { file.write(bytes); });
  int group = 0;
  std::optional<RunTimes> times;
  if (input.run) {
    times.emplace(*input.run);
    write_run_events(*input.run, *times, ++group, events);
  }
  for (const TracedPlan& plan : input.plans)
    write_plan_events(plan, ++group, times ? offset_of_plan(plan, *input.run, *times) : 0, arguments.most_buffers,
                      events);
  TraceArguments about;
  about.text("written by", fmt::format("trainer {}", TRAINER_VERSION)).text("of", arguments.experiment.config_path);
  if (input.run) about.text("time", "relative: steps and evaluations one after the other, each as long as it took");
  events.finish(about);
  file.finish();
  return file.num_bytes();
}

std::int64_t num_ops_of(const MemoryTrace& trace) {
  std::int64_t count = 0;
  for (const MemoryAction& action : trace.actions) count += action.kind == MemoryAction::Kind::run ? 1 : 0;
  return count;
}

std::string plan_text(const TracedPlan& plan) {
  const PlanFindings& findings = plan.findings;
  const StepTimes times = times_of(plan.trace, plan.call_seconds);
  constexpr double nanosecond = 1e-9;
  std::string text = findings.experiment_name;
  if (!findings.stage.empty()) text += fmt::format(", stage {}", findings.stage);
  if (findings.has_ranks()) text += fmt::format(", rank {}", plan.rank);
  text += fmt::format(": {} holds the peak, {} allocated of {} reserved; {}, predicted to take {}",
                      traced_step_text(plan.trace), format_bytes(findings.shown().peak_allocated),
                      format_bytes(findings.shown().peak_reserved), format_number_of(num_ops_of(plan.trace), "op"),
                      step_time_text(static_cast<double>(times.whole) * nanosecond));
  return text + '.';
}

/// What is shown of a plan that does not fit.
std::string failure_text(const ExportTraceArguments& arguments, const TracedPlan& plan) {
  const PlanFindings& findings = plan.findings;
  if (findings.plan.fits) return "";
  std::string text = fmt::format("It does not fit {}.", format_bytes(findings.capacity));
  if (!arguments.pytorch.empty())
    text += plan.failure ? fmt::format(" {} ends in {} where memory runs out, as PyTorch's snapshot of it would.",
                                       arguments.pytorch, traced_step_text(*plan.failure))
                         : fmt::format(
                               " {} shows it without a bound: with memory.allocator planned, memory runs out before "
                               "the first step.",
                               arguments.pytorch);
  if (!arguments.perfetto.empty()) text += fmt::format(" {} shows it without a bound.", arguments.perfetto);
  return text;
}

nlohmann::ordered_json trace_json(const ExportTraceArguments& arguments, const TracedInput& input,
                                  std::int64_t pytorch_bytes, std::int64_t perfetto_bytes) {
  using Json = nlohmann::ordered_json;
  const auto file = [](const std::string& path, std::int64_t num_bytes) {
    return path.empty() ? Json(nullptr) : Json({{"output", path}, {"bytes", num_bytes}});
  };
  Json plans = Json::array();
  for (const TracedPlan& plan : input.plans) {
    const MemoryPlan& shown = plan.findings.shown();
    plans.push_back({{"name", plan.findings.experiment_name},
                     {"stage", plan.findings.stage.empty() ? Json(nullptr) : Json(plan.findings.stage)},
                     {"rank", plan.rank},
                     {"fits", plan.findings.plan.fits},
                     {"step", plan.trace.step},
                     {"evaluation", plan.trace.evaluation},
                     {"ops", num_ops_of(plan.trace)},
                     {"failing_step", plan.failure ? Json(plan.failure->step) : Json(nullptr)},
                     {"peak_requested", shown.peak_requested},
                     {"peak_allocated", shown.peak_allocated},
                     {"peak_reserved", shown.peak_reserved}});
  }
  return {{"event", "export-trace"},
          {"of", arguments.experiment.config_path},
          {"plans", std::move(plans)},
          {"problem", input.problem.empty() ? Json(nullptr) : Json(input.problem)},
          {"run_steps", input.run ? Json(input.run->steps.size()) : Json(nullptr)},
          {"pytorch", file(arguments.pytorch, pytorch_bytes)},
          {"perfetto", file(arguments.perfetto, perfetto_bytes)}};
}

bool is_one_file(const std::string& a, const std::string& b) {
  const auto place_of = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  return place_of(a) == place_of(b);
}

ExitCode export_trace(const ExportTraceArguments& arguments) {
  const auto refuse_inputs = [&](const std::vector<std::string>& inputs) {
    for (const std::string& output : {arguments.pytorch, arguments.perfetto}) refuse_own_input(output, inputs);
  };
  for (const std::string& output : {arguments.pytorch, arguments.perfetto})
    refuse_existing(output, arguments.overwrite);
  refuse_inputs({arguments.experiment.config_path});
  const TracedInput input = trace_input(arguments);
  if (input.run) refuse_inputs({input.run->path, (std::filesystem::path(input.run->folder) / config_file).string()});
  const std::int64_t pytorch_bytes = arguments.pytorch.empty() ? 0 : write_pytorch(arguments, input);
  const std::int64_t perfetto_bytes = arguments.perfetto.empty() ? 0 : write_perfetto(arguments, input);
  if (!input.problem.empty())
    write_text(stderr, fmt::format("The run cannot be planned again here, so what it measured is all that was "
                                   "written: {}\n",
                                   input.problem));
  if (arguments.json) {
    write_exactly(stdout, json_text(trace_json(arguments, input, pytorch_bytes, perfetto_bytes)) + '\n');
    return ExitCode::done;
  }
  if (arguments.quiet) return ExitCode::done;
  const Style style = style_for(stdout);
  std::string text;
  const auto add_lines = [&](const std::string& line) {
    if (!line.empty()) text += wrap(line, static_cast<std::size_t>(style.width), "  ") + '\n';
  };
  for (const TracedPlan& plan : input.plans) {
    add_lines(plan_text(plan));
    add_lines(failure_text(arguments, plan));
  }
  if (input.run)
    add_lines(fmt::format("{}: {} measured; {}.", input.run->name,
                          format_number_of(static_cast<std::int64_t>(input.run->steps.size()), "step"),
                          input.run->status()));
  if (!arguments.pytorch.empty())
    add_lines(fmt::format("{}, {}: drop it on pytorch.org/memory_viz", arguments.pytorch, format_bytes(pytorch_bytes)));
  if (!arguments.perfetto.empty())
    add_lines(fmt::format("{}, {}: open it in ui.perfetto.dev or chrome://tracing", arguments.perfetto,
                          format_bytes(perfetto_bytes)));
  write_text(stdout, text);
  return ExitCode::done;
}

}  // namespace

void add_export_trace_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ExportTraceArguments>();
  CLI::App* command = app.add_subcommand("export-trace", "Write a plan or run for PyTorch's and Perfetto's viewers");
  command->add_option("INPUT", arguments->experiment.config_path, "The experiment, a YAML file, or the folder of a run")
      ->required()
      ->type_name("");
  command->add_option("key=value", arguments->experiment.overrides, "Replaces a value of the configuration")
      ->type_name("...");
  arguments->experiment.add_stage_to(*command);
  CLI::Option* pytorch =
      command->add_option("--pytorch", arguments->pytorch, "A memory snapshot for pytorch.org/memory_viz");
  pytorch->type_name("FILE");
  CLI::Option* perfetto =
      command->add_option("--perfetto", arguments->perfetto, "A trace for ui.perfetto.dev; .gz is compressed");
  perfetto->type_name("FILE");
  command->add_option("--gpu", arguments->gpu, "Plan for a GPU that need not be here: rtx4090")->type_name("PROFILE");
  command->add_option("--capacity", arguments->capacity, "Memory to fit into: 2GiB")->type_name("SIZE");
  command->add_option("--rank", arguments->rank, "Of several ranks the one to trace; 0 if not given")
      ->type_name("K")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* buffers =
      command->add_option("--buffers", arguments->most_buffers, "Only the lives of the N largest buffers");
  buffers->type_name("N")->check(CLI::NonNegativeNumber);
  command->add_flag("--overwrite", arguments->overwrite, "Replace files that exist");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print mistakes only");
  command->footer("Shown is the step that holds the peak; of a run also what it measured.\n\n" +
                  examples({"export-trace configs/quickstart.yaml --pytorch plan.pickle",
                            "export-trace runs/quickstart --perfetto run.json.gz"}));
  command->callback([arguments, pytorch, perfetto, buffers, &action] {
    if (pytorch->count() + perfetto->count() == 0)
      throw CLI::ValidationError("--pytorch FILE or --perfetto FILE says what is to be written");
    if (buffers->count() > 0 && perfetto->count() == 0)
      throw CLI::ValidationError("--buffers is of --perfetto FILE, which is not given");
    if (pytorch->count() > 0 && perfetto->count() > 0 && is_one_file(arguments->pytorch, arguments->perfetto))
      throw CLI::ValidationError("--pytorch and --perfetto name one file; give each its own");
    action = [arguments] { return export_trace(*arguments); };
  });
}

}  // namespace trainer
