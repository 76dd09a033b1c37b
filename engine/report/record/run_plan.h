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
/// Throws ConfigError where the configuration cannot be read, DeviceError where neither is there.
PlanRequest plan_request_of_run(const RunRecord& run, const RunPlanOptions& options, const DeviceSource& devices);

/// The rank whose events these are, by its folder.
std::int64_t rank_of_run(const RunRecord& run);

}  // namespace trainer
