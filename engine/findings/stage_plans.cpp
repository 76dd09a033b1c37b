#include "engine/findings/stage_plans.h"

#include <algorithm>

#include "engine/program/handed_parameters.h"

namespace trainer {

bool StagePlans::fits() const {
  return std::all_of(stages.begin(), stages.end(), [](const StagePlan& stage) { return stage.findings.plan.fits; });
}

std::size_t StagePlans::largest() const {
  const auto largest = std::max_element(stages.begin(), stages.end(), [](const StagePlan& a, const StagePlan& b) {
    return a.findings.shown().peak_reserved < b.findings.shown().peak_reserved;
  });
  return static_cast<std::size_t>(largest - stages.begin());
}

StagePlans find_stage_plans(const PlanRequest& request, const DeviceSource& devices,
                            const RatesProblemSink& on_rates_problem) {
  StagePlans plans;
  plans.experiment_name = request.experiment.name;
  Program before;
  for (const StageConfig& stage : request.experiment.stages) {
    PlanRequest of_stage = request;
    of_stage.experiment = *stage.experiment;
    Program program;
    StagePlan plan;
    plan.findings = find_plan(of_stage, devices, on_rates_problem, &program);
    if (!plans.stages.empty()) check_parameters_go_on(before, program, stage);
    plan.num_parameters = num_parameters(program);
    plan.num_trained = num_trained_parameters(program);
    const MemoryPlan& shown = plan.findings.shown();
    plan.beyond_before = shown.peak.live.by_category;
    if (!plans.stages.empty()) {
      const CategoryBytes& former = plans.stages.back().findings.shown().peak.live.by_category;
      for (std::size_t c = 0; c < former.size(); ++c) plan.beyond_before[c] -= former[c];
    }
    if (!shown.steps.empty()) plan.purged = shown.steps.back().memory.reserved;
    plans.stages.push_back(std::move(plan));
    before = std::move(program);
  }
  return plans;
}

}  // namespace trainer
