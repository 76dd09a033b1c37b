#pragma once

#include "cli/commands/plan_arguments.h"
#include "engine/report/plan/plan_comparison.h"
#include "engine/report/plan/plan_report.h"

namespace trainer {

/// The plan for the one device and capacity asked for; with --verify, the first steps are run and measured where it
/// fits. Throws ConfigError, DataError, DeviceError; ProgramOutOfMemory where a measured step finds too little memory.
PlanFindings find_plan(const PlanArguments& arguments);

/// The plan for each of the GPUs under each of the capacities, by capacity.
PlanComparison compare_targets(const PlanArguments& arguments);

}  // namespace trainer
