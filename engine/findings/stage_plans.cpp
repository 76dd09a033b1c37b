#include "engine/findings/stage_plans.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "datasets/dataset.h"
#include "engine/program/handed_parameters.h"
#include "engine/train/running_stage.h"

namespace trainer {

bool StagePlans::fits() const {
  return std::all_of(stages.begin(), stages.end(), [](const StagePlan& stage) { return stage.findings.fits(); }) &&
         std::all_of(predictions.begin(), predictions.end(),
                     [](const Prediction& prediction) { return prediction.findings.plan.fits; });
}

std::size_t StagePlans::largest() const {
  const auto largest = std::max_element(stages.begin(), stages.end(), [](const StagePlan& a, const StagePlan& b) {
    return a.findings.shown().peak_reserved < b.findings.shown().peak_reserved;
  });
  return static_cast<std::size_t>(largest - stages.begin());
}

PredictionPlanRequest prediction_request(const Experiment& trained, const DataDescription& data) {
  PredictionPlanRequest request;
  request.experiment = trained;
  request.data = data;
  request.path = trained.output;
  return request;
}

StagePlans find_stage_plans(const PlanRequest& request, const DeviceSource& devices,
                            const RatesProblemSink& on_rates_problem, std::vector<PlannedProgram>* planned) {
  StagePlans plans;
  plans.experiment_name = request.experiment.name;
  std::optional<PlannedProgram> before;
  std::vector<StageConfig> all = request.experiment.stages;
  if (all.empty())
    all.push_back({.name = "train",
                   .experiment = std::make_shared<Experiment>(request.experiment),
                   .state = {},
                   .cleared_groups = {},
                   .freezes_otherwise = false,
                   .purge = true,
                   .location = {}});
  for (const StageConfig& stage : all) {
    PlanRequest of_stage = request;
    of_stage.experiment = *stage.experiment;
    if (!stage.purge) of_stage.experiment.memory.kept = plans.stages.back().findings.plan.left_cached;
    std::optional<PlannedProgram> of_plan;
    StagePlan plan;
    plan.findings = find_plan(of_stage, devices, on_rates_problem, &of_plan);
    const Program& program = of_plan->compiled.program;
    if (plan.findings.stage.empty()) plan.findings.stage = stage.name;
    if (!plans.stages.empty()) {
      check_parameters_go_on(before->compiled.program, program, stage);
      check_state_goes_on(*all[plans.stages.size() - 1].experiment, stage);
    }
    plan.num_parameters = num_parameters(program);
    plan.num_trained = num_trained_parameters(program);
    const MemoryPlan& shown = plan.findings.shown();
    plan.beyond_before = shown.peak.live.by_category;
    if (!plans.stages.empty()) {
      const CategoryBytes& former = plans.stages.back().findings.shown().peak.live.by_category;
      for (std::size_t c = 0; c < former.size(); ++c) plan.beyond_before[c] -= former[c];
    }
    if (!shown.steps.empty()) plan.purged = shown.steps.back().memory.reserved;
    if (!stage.purge) {
      StagePlan& former = plans.stages.back();
      former.kept = plan.findings.kept;
      former.purged -= former.kept;
      const CachedSegments* const left = former.findings.plan.left_cached.get();
      plan.is_purged_to_fit = plan.findings.plan.fits && former.kept == 0 && left != nullptr && left->num_bytes() > 0;
    }
    plans.stages.push_back(std::move(plan));
    if (planned != nullptr && before) planned->push_back(*std::move(before));
    before = std::move(of_plan);
  }
  if (planned != nullptr) planned->push_back(*std::move(before));
  const Experiment& trained = *all.back().experiment;
  for (const PredictConfig& predict : request.experiment.predictions) {
    PredictionPlanRequest asked = prediction_request(trained, describe_data(trained.data, trained.seed));
    asked.gpu = request.gpus.empty() ? "" : request.gpus.front();
    asked.capacity = request.capacities.empty() ? "" : request.capacities.front();
    plans.predictions.push_back({predict.name, find_prediction_plan(asked, devices)});
  }
  return plans;
}

}  // namespace trainer
