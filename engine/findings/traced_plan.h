#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/findings/find_plan.h"
#include "engine/plan/memory_trace.h"

namespace trainer {

/// A plan with what a picture of it shows: each op and buffer of the step that holds the peak.
struct TracedPlan {
  PlanFindings findings;  ///< what it says of one rank is of `rank`
  std::int64_t rank = 0;
  Program program;
  MemoryTrace trace;  ///< of findings.shown(): without a bound where it does not fit
  /// Where it does not fit: the step in which memory runs out, up to there. Nothing of the planned allocator, whose
  /// segment is refused before any step.
  std::optional<MemoryTrace> failure;
  std::vector<double> call_seconds;  ///< by call of the program, predicted; without what waits for other ranks
};

/// One for each stage; one of an experiment without stages. Throws as find_plan() does, and ConfigError where there is
/// no such rank.
std::vector<TracedPlan> find_traced_plans(PlanRequest request, std::int64_t rank, const DeviceSource& devices,
                                          const RatesProblemSink& on_rates_problem);

}  // namespace trainer
