#include "engine/report/record/run_plan.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/config/text/json_output.h"
#include "engine/errors.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// JSON is YAML, too.
Experiment experiment_of_run(const RunRecord& run, const std::vector<std::string>& overrides) {
  return parse_experiment(json_text(run.config), run.path, overrides);
}

/// What the run settled when it began, as overrides.
std::vector<std::string> settled_by_run(const RunRecord& run, const Experiment& experiment) {
  std::vector<std::string> settled;
  if (experiment.device.type == DeviceType::automatic) settled.push_back("device.type=" + run.device_kind);
  if (experiment.train.batch_size.is_automatic() && experiment.stages.empty() && run.batch_size > 0)
    settled.push_back(fmt::format("train.batch_size={}", run.batch_size));
  return settled;
}

bool is_here(const DeviceSource& devices, const Experiment& experiment, const std::string& name) {
  try {
    return devices.make(experiment)->name() == name;
  } catch (const DeviceError&) {
    return false;
  }
}

/// As --gpu takes it; empty: it is planned on this machine.
std::string gpu_of_run(const RunRecord& run, const Experiment& experiment, const DeviceSource& devices) {
  if (run.device_kind != "cuda" || is_here(devices, experiment, run.device_name)) return "";
  if (std::string gpu = shipped_gpu_of(run); !gpu.empty()) return gpu;
  throw DeviceError(fmt::format(
      "its device, {}, is not here, and no file of configs/gpus/ describes it: --gpu PROFILE names one that does",
      run.device_name));
}

}  // namespace

std::string shipped_gpu_of(const RunRecord& run) {
  if (run.device_kind != "cuda") return "";
  for (const GpuProfile& profile : shipped_gpu_profiles())
    if (profile.name == run.device_name) return short_name(profile);
  return "";
}

PlanRequest plan_request_of_run(const RunRecord& run, const RunPlanOptions& options, const DeviceSource& devices) {
  const std::string config = (fs::path(run.folder) / config_file).string();
  std::error_code ignored;
  PlanRequest request;
  if (fs::exists(config, ignored)) request.config_path = config;
  request.overrides = options.overrides;
  request.experiment = experiment_of_run(run, request.overrides);
  if (const std::vector<std::string> settled = settled_by_run(run, request.experiment); !settled.empty()) {
    request.overrides.insert(request.overrides.end(), settled.begin(), settled.end());
    request.experiment = experiment_of_run(run, request.overrides);
  }
  if (!options.stage.empty()) {
    const std::size_t stage = find_stage(request.experiment, options.stage, "--stage");
    Experiment of_stage = *request.experiment.stages[stage].experiment;
    request.experiment = std::move(of_stage);
  }
  const std::string gpu = options.gpu.empty() ? gpu_of_run(run, request.experiment, devices) : options.gpu;
  if (!gpu.empty()) request.gpus = {gpu};
  // Another GPU has a capacity of its own.
  if (!options.capacity.empty())
    request.capacities = {options.capacity};
  else if (options.gpu.empty() && run.capacity > 0)
    request.capacity_of_run = run.capacity;
  return request;
}

std::int64_t rank_of_folder(const std::string& folder) {
  fs::path place = fs::absolute(folder.empty() ? "." : folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  const std::string name = place.filename().string();
  if (place.parent_path().filename() != ranks_folder) return 0;
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  return error == std::errc() && end == name.data() + name.size() ? rank : 0;
}

}  // namespace trainer
