#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/findings/find_plan.h"
#include "engine/report/record/run_record.h"

namespace trainer {

/// What is asked beside a run that is planned again; what is empty is as the run had it.
struct RunPlanOptions {
  std::vector<std::string> overrides{};    ///< of its configuration
  std::string stage{}, gpu{}, capacity{};  ///< as the options of `plan` are called
};

/// What plans a run again: the resolved configuration that its events tell, with the batch that `auto` stood for, under
/// its capacity, on its device where that is here, else on the GPU that the shipped profile of its name describes.
/// `config_path` is that of its folder, for commands; empty where the run has left none, as where it did not fit.
/// Throws ConfigError where the configuration cannot be read, DeviceError where neither is there.
PlanRequest plan_request_of_run(const RunRecord& run, const RunPlanOptions& options, const DeviceSource& devices);

/// The shipped profile of a run's GPU, as --gpu takes it; empty where it has none, or is on no GPU.
std::string shipped_gpu_of(const RunRecord& run);

/// The rank whose events stand in that folder: 2 of runs/x/ranks/2, 0 of any other.
std::int64_t rank_of_folder(const std::string& folder);

}  // namespace trainer
