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

/// What plans a run again: its resolved configuration (config.yaml, or where that is gone the one its events tell) on
/// its kind of device with its capacity; a GPU is described by the profile of its name, where one is shipped. Throws
/// ConfigError and DataError where the configuration cannot be read.
PlanRequest plan_request_of_run(const RunRecord& run, const RunPlanOptions& options);

/// The rank whose events these are, by its folder.
std::int64_t rank_of_run(const RunRecord& run);

}  // namespace trainer
