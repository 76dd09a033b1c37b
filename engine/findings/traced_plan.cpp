#include "engine/findings/traced_plan.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "engine/findings/stage_plans.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/cost_model.h"

namespace trainer {
namespace {

TracedPlan trace_plan(PlanFindings findings, PlannedProgram planned, std::int64_t rank) {
  const CompiledExperiment& compiled = planned.compiled;
  TracedPlan traced;
  traced.rank = rank;
  const CachingAllocatorOptions options = allocator_options(compiled.experiment);
  traced.trace = trace_peak(compiled.program, compiled.schedule, findings.shown(), options);
  if (!findings.plan.fits && !compiled.program.placement)
    traced.failure = trace_failure(compiled.program, compiled.schedule, findings.plan, options);
  for (const OpCall& call : compiled.program.calls)
    traced.call_seconds.push_back(computing_seconds(compiled.program, call, planned.rates));
  traced.findings = std::move(findings);
  traced.program = std::move(planned.compiled.program);
  return traced;
}

/// The experiment of a rank, and of all its stages.
void set_rank(Experiment& experiment, std::int64_t rank) {
  experiment.parallel.rank = rank;
  for (StageConfig& stage : experiment.stages) {
    Experiment of_stage = *stage.experiment;
    of_stage.parallel.rank = rank;
    stage.experiment = std::make_shared<Experiment>(std::move(of_stage));
  }
}

}  // namespace

std::vector<TracedPlan> find_traced_plans(PlanRequest request, std::int64_t rank, const DeviceSource& devices,
                                          const RatesProblemSink& on_rates_problem) {
  const std::int64_t num_ranks = total_ranks(request.experiment.parallel);
  if (rank < 0 || rank >= num_ranks)
    throw ConfigError(fmt::format("there is no rank {}: ranks are counted from 0, and there are {}", rank, num_ranks));
  set_rank(request.experiment, rank);
  std::vector<TracedPlan> traced;
  if (request.experiment.stages.empty()) {
    std::optional<PlannedProgram> planned;
    PlanFindings findings = find_plan(request, devices, on_rates_problem, &planned);
    traced.push_back(trace_plan(std::move(findings), *std::move(planned), rank));
    return traced;
  }
  std::vector<PlannedProgram> planned;
  StagePlans plans = find_stage_plans(request, devices, on_rates_problem, &planned);
  for (std::size_t i = 0; i < planned.size(); ++i)
    traced.push_back(trace_plan(std::move(plans.stages[i].findings), std::move(planned[i]), rank));
  return traced;
}

}  // namespace trainer
