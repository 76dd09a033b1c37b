#include "engine/report/page/reported_input.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/config/text/json_output.h"
#include "engine/errors.h"
#include "engine/report/record/run_plan.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

void plan_again(ReportedInput& input, const ReportRequest& request, const DeviceSource& devices,
                const RatesProblemSink& on_rates_problem) {
  const RunRecord& run = *input.run;
  try {
    PlanRequest plan =
        plan_request_of_run(run, {.stage = request.stage, .gpu = request.gpu, .capacity = request.capacity}, devices);
    plan.watch = request.watch;
    input.config_text = resolved_yaml(plan.experiment);
    input.num_ranks = total_ranks(plan.experiment.parallel);
    input.plans = find_traced_plans(std::move(plan), input.rank, devices, on_rates_problem);
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
  if (rank && rank_of_folder(fs::path(events_path_of(request.path)).parent_path().string()) > 0)
    throw ConfigError(fmt::format("'{}' is the folder of a rank by itself: leave --rank out", request.path));
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
