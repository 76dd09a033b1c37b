#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/findings/traced_plan.h"
#include "engine/report/record/run_record.h"

namespace trainer {

/// What a report is asked to show: a run or a configuration.
struct ReportRequest {
  std::string path;
  std::vector<std::string> overrides{};  ///< of a configuration
  std::vector<std::int64_t> ranks{};     ///< none: rank 0, of the folder of a rank that one
  std::string stage{};                   ///< of a configuration; empty: all
  std::string gpu{}, capacity{};         ///< as --gpu and --capacity take them; empty: not given
  PlanningWatch* watch = nullptr;
};

/// What a report shows of one: rank by rank.
struct ReportedInput {
  std::string path;
  std::vector<std::string> overrides;
  std::optional<RunRecord> run;  ///< nothing: a configuration
  std::int64_t rank = 0;
  std::int64_t num_ranks = 1;
  Json config;                    ///< resolved
  std::string config_text;        ///< the same as YAML; JSON where this trainer does not read it any more
  std::vector<TracedPlan> plans;  ///< by stage
  std::string no_plan;            ///< why there is none, of a run
};

/// One for each rank asked for. A run is planned again from the configuration that it told, under its capacity, for its
/// device where that is here, else for the shipped profile of that name. Throws DataError where a run cannot be read,
/// ConfigError where there is no such rank or stage, and of a configuration as find_traced_plans() does.
std::vector<ReportedInput> find_reported_inputs(const ReportRequest& request, const DeviceSource& devices,
                                                const RatesProblemSink& on_rates_problem);

}  // namespace trainer
