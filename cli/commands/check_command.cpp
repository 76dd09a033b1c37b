#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/fitting_cut.h"
#include "engine/program/handed_parameters.h"
#include "engine/program/run_checks.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/run/weights_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/style.h"
#include "engine/train/data_checks.h"
#include "engine/train/files/frozen_weights.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/files/weights_match.h"
#include "engine/train/running_stage.h"

namespace trainer {
namespace {

struct CheckArguments {
  ExperimentArguments experiment;
  bool quiet = false, json = false, full = false;
};

void require_data_files(const DataConfig& config) {
  const std::vector<std::string> missing = missing_data_files(config);
  if (missing.empty()) return;
  std::string message = "data is missing, no such file or folder:";
  for (const std::string& path : missing) message += "\n  " + path;
  throw DataError(message + how_to_fetch(config));
}

/// What is found of a stage without reading its data.
struct CheckedStage {
  std::string name;
  bool fits = false;
  std::int64_t peak_reserved = 0, steps = 0;
};

/// What was found of a configuration that is valid.
struct CheckFindings {
  CompiledExperiment compiled;
  Capacity capacity;
  MemoryPlan plan;
  std::string device_kind, device_name;
  std::optional<WeightsMatch> weights;
  std::vector<WeightsMatch> frozen;
  std::vector<std::string> warnings;
  std::vector<CheckedStage> stages{};

  bool fits() const {
    if (stages.empty()) return plan.fits;
    return std::all_of(stages.begin(), stages.end(), [](const CheckedStage& stage) { return stage.fits; });
  }
  std::int64_t peak_reserved() const {
    std::int64_t peak = stages.empty() ? plan.peak_reserved : 0;
    for (const CheckedStage& stage : stages) peak = std::max(peak, stage.peak_reserved);
    return peak;
  }
  std::int64_t steps() const {
    std::int64_t steps = stages.empty() ? compiled.schedule.total_steps() : 0;
    for (const CheckedStage& stage : stages) steps += stage.steps;
    return steps;
  }
};

/// What a run would start from, which may be tensors that do not match.
std::optional<WeightsMatch> examine_weights(const Experiment& experiment, const Program& program) {
  if (experiment.weights.file.empty()) return std::nullopt;
  return match_weights(experiment.weights, intact_weights(experiment.weights.file), program);
}

DataError unreadable_samples(const std::vector<std::string>& reasons) {
  constexpr std::size_t most_told = 20;
  std::string told = reasons.front();
  for (std::size_t i = 1; i < std::min(reasons.size(), most_told); ++i) told += '\n' + reasons[i];
  if (reasons.size() > most_told) told += fmt::format("\nand {} more like it", reasons.size() - most_told);
  return DataError(told + "\ndata.on_bad_sample=skip leaves such samples out");
}

CheckFindings examine_experiment(const Experiment& experiment) {
  require_data_files(experiment.data);
  const std::unique_ptr<Device> device = make_device(experiment);
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  const Capacity capacity = capacity_of(experiment, data, *device);
  CompiledExperiment compiled = compile_experiment(with_settled_cut(experiment, data, *device, capacity.num_bytes),
                                                   data, *device, capacity.num_bytes);
  std::optional<WeightsMatch> weights = examine_weights(experiment, compiled.program);
  if (weights) require_match(*weights);
  const FrozenWeights frozen(experiment, compiled.program);
  frozen.require_matches();
  // Reads every sample: a file can be damaged behind its header.
  DataConfig as_stored = experiment.data;
  as_stored.cache = ImageCaching::none;
  as_stored.on_bad_sample = OnBadSample::skip;  // so that all are found
  const LoadedData loaded = load_data(as_stored, experiment.seed);
  check_data(experiment, loaded);
  if (experiment.data.type != DataType::synthetic) read_every_sample(loaded, num_workers(experiment.data));
  MemoryPlan plan = plan_memory(compiled, capacity.num_bytes);
  std::vector<std::string> warnings = run_warnings(compiled.experiment, compiled.schedule);
  if (std::string text = settled_cut_text(experiment, compiled.experiment); !text.empty())
    warnings.push_back(std::move(text));
  warnings.insert(warnings.end(), loaded.remarks.begin(), loaded.remarks.end());
  std::vector<std::string> skipped;
  for (const auto& dataset : {loaded.train, loaded.validation}) {
    if (!dataset) continue;
    for (std::string& why : dataset->skipped_samples()) skipped.push_back(std::move(why));
  }
  if (experiment.data.on_bad_sample == OnBadSample::error && !skipped.empty()) throw unreadable_samples(skipped);
  warnings.insert(warnings.end(), skipped.begin(), skipped.end());
  return {std::move(compiled), capacity,           std::move(plan),  device->kind(),
          device->name(),      std::move(weights), frozen.matches(), std::move(warnings)};
}

/// Compiles and plans each stage, and looks whether their parameters and the optimizer's state go on.
std::vector<CheckedStage> examine_stages(const Experiment& experiment) {
  std::vector<CheckedStage> checked;
  if (experiment.stages.empty()) return checked;
  const std::unique_ptr<Device> device = make_device(experiment);
  std::optional<CompiledExperiment> before;
  std::shared_ptr<const CachedSegments> left;
  for (const StageConfig& stage : experiment.stages) {
    Experiment of_stage = *stage.experiment;
    if (!stage.purge) of_stage.memory.kept = left;
    require_data_files(of_stage.data);
    const DataDescription data = describe_data(of_stage.data, of_stage.seed);
    const Capacity capacity = capacity_of(of_stage, data, *device);
    CompiledExperiment compiled = compile_experiment(of_stage, data, *device, capacity.num_bytes);
    if (before) {
      check_parameters_go_on(before->program, compiled.program, stage);
      check_state_goes_on(before->experiment, stage);
    }
    const MemoryPlan plan = plan_memory(compiled, capacity.num_bytes);
    left = plan.left_cached;
    checked.push_back({stage.name, plan.fits, plan.peak_reserved, compiled.schedule.total_steps()});
    before.emplace(std::move(compiled));
  }
  return checked;
}

std::string stages_line(const std::vector<CheckedStage>& stages) {
  std::vector<std::string> names;
  names.reserve(stages.size());
  for (const CheckedStage& stage : stages)
    names.push_back(stage.fits ? fmt::format("{} ({})", stage.name, format_bytes(stage.peak_reserved))
                               : stage.name + " (does not fit)");
  constexpr std::size_t most_told = 10;
  const std::size_t num_more = names.size() - std::min(names.size(), most_told);
  names.resize(names.size() - num_more);
  return fmt::format("{}{}", fmt::join(names, ", "), num_more > 0 ? fmt::format(" and {} more", num_more) : "");
}

std::string check_text(const CheckFindings& findings, const ExperimentArguments& arguments,
                       bool asked_for_largest_batch, bool shows_all_weights, const Style& style) {
  const DataDescription& data = findings.compiled.data;
  const RunSchedule& schedule = findings.compiled.schedule;
  std::string text = fmt::format("{} {}\n", arguments.config_path, paint(style, Ink::green, "is valid"));
  text += fmt::format("  model     {}, {}\n", format_number_of(num_model_layers(findings.compiled.program), "layer"),
                      format_number_of(num_parameters(findings.compiled.program), "parameter"));
  text += fmt::format(
      "  data      {} for training and {} for validation, each {}, {}\n", format_number_of(data.num_train, "sample"),
      format_count(data.num_validation), data.sample_text(),
      data.categorical() ? fmt::format("{} classes", data.num_outputs) : format_number_of(data.num_outputs, "output"));
  text += fmt::format("  run       {}, {}, on {} ({})\n", format_number_of(findings.steps(), "step"),
                      findings.stages.empty()
                          ? fmt::format("{} in an epoch", format_count(schedule.steps_per_epoch()))
                          : "of " + format_number_of(static_cast<std::int64_t>(findings.stages.size()), "stage"),
                      findings.device_kind, findings.device_name);
  if (asked_for_largest_batch)
    text += fmt::format("  batch     {} is what train.batch_size: auto stands for here\n",
                        format_count(schedule.batch_size()));
  if (findings.fits())
    text += fmt::format("  memory    reserves {} of {} ({})\n", format_bytes(findings.peak_reserved()),
                        format_bytes(findings.capacity.num_bytes), findings.capacity.origin);
  else
    text += fmt::format("  memory    {} {} ({}); what would:\n{}", paint(style, Ink::red, "does not fit"),
                        format_bytes(findings.capacity.num_bytes), findings.capacity.origin,
                        pasted_command(arguments.words("plan"), style, "            "));
  if (!findings.stages.empty()) text += fmt::format("  stages    {}\n", stages_line(findings.stages));
  if (findings.weights) text += fmt::format("  weights   {}\n", weights_line(*findings.weights));
  for (const std::string& warning : findings.warnings)
    text += fmt::format("  {}   {}\n", paint(style, Ink::yellow, "warning"), warning);
  text = wrap_lines(text, static_cast<std::size_t>(style.width));
  if (findings.weights) text += '\n' + weights_table(*findings.weights, shows_all_weights, style);
  if (!findings.frozen.empty()) text += '\n' + frozen_text(findings.frozen, shows_all_weights, style);
  return text;
}

std::string check_json(const CheckFindings& findings) {
  const DataDescription& data = findings.compiled.data;
  const RunSchedule& schedule = findings.compiled.schedule;
  nlohmann::ordered_json json = {
      {"event", "check"},
      {"schema", event_schema_version},
      {"valid", true},
      {"layers", num_model_layers(findings.compiled.program)},
      {"parameters", num_parameters(findings.compiled.program)},
      {"train_samples", data.num_train},
      {"validation_samples", data.num_validation},
      {"batch_size", schedule.batch_size()},
      {"steps", findings.steps()},
      {"device", findings.device_kind},
      {"fits", findings.fits()},
      {"capacity", findings.capacity.num_bytes},
      {"peak_reserved", findings.fits() ? nlohmann::ordered_json(findings.peak_reserved()) : nlohmann::ordered_json()},
      {"weights", findings.weights ? weights_json(*findings.weights) : nlohmann::ordered_json()},
      {"warnings", findings.warnings}};
  for (const CheckedStage& stage : findings.stages)
    json["stages"].push_back(
        {{"stage", stage.name},
         {"fits", stage.fits},
         {"peak_reserved", stage.fits ? nlohmann::ordered_json(stage.peak_reserved) : nlohmann::ordered_json()}});
  if (!findings.frozen.empty()) json["frozen"] = frozen_json(findings.frozen);
  return json_text(json);
}

/// Where the block or the model's file that a place stands in is used, from the inside out.
nlohmann::ordered_json uses_json(const SourceLocation& location) {
  nlohmann::ordered_json uses = nlohmann::ordered_json::array();
  for (const SourceLocation* use = location.used_at.get(); use != nullptr; use = use->used_at.get())
    uses.push_back({{"file", use->file}, {"line", use->line}, {"column", use->column}, {"length", use->length}});
  return uses;
}

/// Lines and columns are from 1; 0: a word of the command line, which is then the file.
std::string mistakes_json(const Error& error) {
  nlohmann::ordered_json mistakes = nlohmann::ordered_json::array();
  const auto* const config_error = dynamic_cast<const ConfigError*>(&error);
  if (config_error != nullptr) {
    for (const Diagnostic& one : config_error->diagnostics())
      mistakes.push_back({{"file", one.location.file},
                          {"line", one.location.line},
                          {"column", one.location.column},
                          {"length", one.location.length},
                          {"message", one.message},
                          {"expected", one.expectation},
                          {"suggestion", one.suggestion},
                          {"used_at", uses_json(one.location)}});
  }
  if (mistakes.empty()) mistakes.push_back({{"message", error.what()}});
  nlohmann::ordered_json json = {
      {"event", "check"}, {"schema", event_schema_version}, {"valid", false}, {"mistakes", mistakes}};
  if (const auto* mismatch = dynamic_cast<const WeightsMismatch*>(&error); mismatch != nullptr)
    json["weights"] = weights_json(mismatch->match());
  return json_text(json);
}

ExitCode check(const CheckArguments& arguments) {
  try {
    const Experiment experiment = arguments.experiment.load();
    CheckFindings findings = examine_experiment(experiment);
    findings.stages = examine_stages(experiment);
    if (arguments.json)
      write_exactly(stdout, check_json(findings) + '\n');
    else if (!arguments.quiet)
      write_text(stdout, check_text(findings, arguments.experiment, experiment.train.batch_size.is_automatic(),
                                    arguments.full, style_for(stdout)));
  } catch (const Error& error) {
    if (arguments.json) write_exactly(stdout, mistakes_json(error) + '\n');
    const auto* const mismatch = dynamic_cast<const WeightsMismatch*>(&error);
    if (mismatch != nullptr && !arguments.json && !arguments.quiet) {
      write_text(stdout, fmt::format("{}\n\n{}\n", weights_line(mismatch->match()),
                                     weights_table(mismatch->match(), arguments.full, style_for(stdout))));
    }
    throw;
  }
  return ExitCode::done;
}

}  // namespace

void add_check_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand("check", "Validate a configuration, its shapes and its data files");
  arguments->experiment.add_to(*command);
  command->add_flag("--json", arguments->json, "Print one JSON object, mistakes with their places included");
  command->add_flag("--full", arguments->full, "Print every tensor of weights.file, however many there are");
  command->add_flag("-q,--quiet", arguments->quiet, "Print mistakes only");
  command->footer(examples({"check configs/quickstart.yaml"}));
  command->callback([arguments, &action] { action = [arguments] { return check(*arguments); }; });
}

}  // namespace trainer
