#include "engine/report/record/run_plan.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Its configuration, of the file where that is there.
Experiment experiment_of_run(const RunRecord& run, const std::string& path, const std::vector<std::string>& overrides) {
  return path == run.path ? parse_experiment(run.config.dump(), path, overrides) : load_experiment(path, overrides);
}

std::string profile_of_run(const RunRecord& run) {
  if (run.device_kind != "cuda") return "";
  for (const GpuProfile& profile : shipped_gpu_profiles())
    if (profile.name == run.device_name) return short_name(profile);
  return "";
}

}  // namespace

PlanRequest plan_request_of_run(const RunRecord& run, const RunPlanOptions& options) {
  const std::string config = (fs::path(run.folder) / config_file).string();
  std::error_code ignored;
  PlanRequest request;
  request.config_path = fs::exists(config, ignored) ? config : run.path;
  request.overrides = options.overrides;
  request.experiment = experiment_of_run(run, request.config_path, request.overrides);
  if (request.experiment.device.type == DeviceType::automatic && !run.device_kind.empty()) {
    request.overrides.push_back("device.type=" + run.device_kind);
    request.experiment = experiment_of_run(run, request.config_path, request.overrides);
  }
  if (!options.stage.empty()) {
    const std::size_t stage = find_stage(request.experiment, options.stage, "--stage");
    Experiment of_stage = *request.experiment.stages[stage].experiment;
    request.experiment = std::move(of_stage);
  }
  const std::string gpu = options.gpu.empty() ? profile_of_run(run) : options.gpu;
  if (!gpu.empty()) request.gpus = {gpu};
  // Another GPU has a capacity of its own.
  const bool is_its_device = options.gpu.empty();
  if (!options.capacity.empty())
    request.capacities = {options.capacity};
  else if (is_its_device && run.capacity > 0)
    request.capacities = {std::to_string(run.capacity)};
  return request;
}

std::int64_t rank_of_run(const RunRecord& run) {
  const fs::path folder = fs::path(run.folder).lexically_normal();
  const std::string name = folder.filename().string();
  if (folder.parent_path().filename() != ranks_folder) return 0;
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  return error == std::errc() && end == name.data() + name.size() ? rank : 0;
}

}  // namespace trainer
