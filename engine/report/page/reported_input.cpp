#include "engine/report/page/reported_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/config/text/json_output.h"
#include "engine/errors.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The rank whose folder it is: 2 of runs/x/ranks/2; 0 of any other.
std::int64_t rank_of_folder(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  const fs::path of_rank = path.has_filename() ? path : path.parent_path();
  const std::string name = of_rank.filename().string();
  constexpr std::size_t most_digits = 6;
  const bool is_number = !name.empty() && name.size() <= most_digits &&
                         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number && of_rank.parent_path().filename() == ranks_folder ? std::stoll(name) : 0;
}

bool is_here(const DeviceSource& devices, const Experiment& experiment, const std::string& name) {
  try {
    return devices.make(experiment)->name() == name;
  } catch (const DeviceError&) {
    return false;
  }
}

std::string profile_of(const std::string& device_name) {
  for (const GpuProfile& profile : shipped_gpu_profiles())
    if (profile.name == device_name) return short_name(profile);
  throw ConfigError(
      fmt::format("its device, {}, is not here, and no file of configs/gpus/ describes it: --gpu PROFILE names one "
                  "that does",
                  device_name));
}

/// The experiment of a run, with what it settled when it began. JSON is YAML, too.
Experiment experiment_of(const RunRecord& run) {
  const std::string text = json_text(run.config);
  Experiment experiment = parse_experiment(text, run.path);
  std::vector<std::string> settled;
  if (run.device_kind == "cpu" && experiment.device.type != DeviceType::cpu) settled.emplace_back("device.type=cpu");
  if (experiment.train.batch_size.is_automatic() && experiment.stages.empty() && run.batch_size > 0)
    settled.push_back(fmt::format("train.batch_size={}", run.batch_size));
  return settled.empty() ? experiment : parse_experiment(text, run.path, settled);
}

void plan_again(ReportedInput& input, const ReportRequest& request, const DeviceSource& devices,
                const RatesProblemSink& on_rates_problem) {
  const RunRecord& run = *input.run;
  try {
    Experiment experiment = experiment_of(run);
    input.config_text = resolved_yaml(experiment);
    input.num_ranks = total_ranks(experiment.parallel);
    PlanRequest plan;
    plan.config_path = run.folder + '/' + config_file;
    plan.watch = request.watch;
    std::string gpu = request.gpu;
    if (gpu.empty() && run.device_kind == "cuda" && !is_here(devices, experiment, run.device_name))
      gpu = profile_of(run.device_name);
    if (!gpu.empty()) plan.gpus = {gpu};
    if (!request.capacity.empty())
      plan.capacities = {request.capacity};
    else if (run.capacity > 0)
      plan.capacities = {std::to_string(run.capacity)};
    plan.experiment = std::move(experiment);
    const bool has_own_capacity = request.capacity.empty();
    input.plans = find_traced_plans(std::move(plan), input.rank, devices, on_rates_problem);
    // What this machine has free now is nothing to a run that was.
    for (TracedPlan& traced : input.plans) {
      if (!has_own_capacity) continue;
      PlanFindings& findings = traced.findings;
      findings.capacity_given.clear();
      findings.capacity_origin = "as the run had it";
      std::erase_if(findings.notes, [](const std::string& note) { return note.ends_with("less than --capacity."); });
    }
  } catch (const ConfigError& error) {
    input.no_plan = error.what();
  } catch (const DataError& error) {
    input.no_plan = error.what();
  } catch (const DeviceError& error) {
    input.no_plan = error.what();
  }
}

ReportedInput reported_run(const ReportRequest& request, std::optional<std::int64_t> rank, const DeviceSource& devices,
                           const RatesProblemSink& on_rates_problem) {
  ReportedInput input;
  input.path = request.path;
  std::string path = request.path;
  if (rank && *rank > 0) {
    const std::string folder = fs::path(events_path_of(request.path)).parent_path().string();
    path = folder_of_rank(folder.empty() ? "." : folder, *rank);
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw ConfigError(fmt::format("'{}' holds no rank {}: there is no {}", request.path, *rank, path));
  }
  input.run = read_run(path);
  input.rank = rank ? *rank : rank_of_folder(input.run->folder);
  input.config = input.run->config;
  input.config_text = json_text(input.config, 2);
  plan_again(input, request, devices, on_rates_problem);
  return input;
}

ReportedInput reported_plan(const ReportRequest& request, std::int64_t rank, const DeviceSource& devices,
                            const RatesProblemSink& on_rates_problem) {
  Experiment experiment = load_experiment(request.path, request.overrides);
  if (!request.stage.empty())
    experiment = Experiment(*experiment.stages[find_stage(experiment, request.stage, "--stage")].experiment);
  ReportedInput input;
  input.path = request.path;
  input.overrides = request.overrides;
  input.rank = rank;
  input.num_ranks = total_ranks(experiment.parallel);
  input.config = Json::parse(resolved_json(experiment));
  input.config_text = resolved_yaml(experiment);
  PlanRequest plan;
  plan.experiment = std::move(experiment);
  plan.config_path = request.path;
  plan.overrides = request.overrides;
  plan.watch = request.watch;
  if (!request.gpu.empty()) plan.gpus = {request.gpu};
  if (!request.capacity.empty()) plan.capacities = {request.capacity};
  input.plans = find_traced_plans(std::move(plan), rank, devices, on_rates_problem);
  return input;
}

}  // namespace

std::vector<ReportedInput> find_reported_inputs(const ReportRequest& request, const DeviceSource& devices,
                                                const RatesProblemSink& on_rates_problem) {
  std::vector<ReportedInput> inputs;
  if (names_run(request.path)) {
    if (request.ranks.empty()) inputs.push_back(reported_run(request, std::nullopt, devices, on_rates_problem));
    for (const std::int64_t rank : request.ranks)
      inputs.push_back(reported_run(request, rank, devices, on_rates_problem));
    return inputs;
  }
  const std::vector<std::int64_t> ranks = request.ranks.empty() ? std::vector<std::int64_t>{0} : request.ranks;
  for (const std::int64_t rank : ranks) inputs.push_back(reported_plan(request, rank, devices, on_rates_problem));
  return inputs;
}

}  // namespace trainer
