#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/findings/device_source.h"
#include "engine/findings/gpu_ranks.h"
#include "engine/findings/known_rates.h"
#include "engine/findings/plan_comparison.h"
#include "engine/findings/plan_findings.h"
#include "engine/plan/machine_rates.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/planning_watch.h"

namespace trainer {

/// What `trainer plan` is asked for.
struct PlanRequest {
  Experiment experiment;
  std::string config_path;                    ///< of the experiment, as findings name it
  std::vector<std::string> overrides;         ///< it was loaded with
  std::vector<std::string> gpus, capacities;  ///< as --gpu and --capacity take them
  /// What a run had that is planned again, in place of what there is now; `capacities` is empty then.
  std::optional<std::int64_t> capacity_of_run{};
  std::vector<GpuRanks> rank_gpus{};  ///< of all ranks, where --gpu says how many have which; `gpus` is then the first
  bool verify = false;
  PlanningWatch* watch = nullptr;
};

/// What a plan was made of.
struct PlannedProgram {
  CompiledExperiment compiled;
  MachineRates rates;
};

/// The plan for the one device and capacity asked for; with `verify`, the first steps are run and measured where it
/// fits. Throws ConfigError, DataError, DeviceError, PlanningInterrupted; ProgramOutOfMemory where a measured step
/// finds too little memory. What it was made of goes to `planned`, unless that is null.
PlanFindings find_plan(const PlanRequest& request, const DeviceSource& devices,
                       const RatesProblemSink& on_rates_problem, std::optional<PlannedProgram>* planned = nullptr);

/// The plan for each of the GPUs under each of the capacities, by capacity. Where the watch interrupts it, those that
/// are left have no plan, and say so.
PlanComparison compare_targets(const PlanRequest& request, const DeviceSource& devices,
                               const RatesProblemSink& on_rates_problem);

}  // namespace trainer
