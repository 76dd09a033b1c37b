#include "engine/report/page/step_plans.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/config/text/json_input.h"

namespace trainer {

StepPlans::StepPlans(const RunRecord& run, std::span<const TracedPlan> plans) try {
  for (const std::string& name : run.stage_names) {
    Stage stage;
    for (const TracedPlan& traced : plans)
      if (plans.size() == 1 || traced.findings.stage == name) stage.plan = &traced.findings.shown();
    for (const Json& event : run.stages) {
      const JsonInput<Json> input(event);
      if (input.at("stage").text() == name) stage.first_step = input.at("first_step").integer();
    }
    stages_.push_back(stage);
  }
} catch (const JsonMistake& mistake) {
  throw DataError(fmt::format("{}: {}", run.path, mistake.what()));
}

const StepMemory* StepPlans::find(const RecordedStep& step) const {
  const Stage& stage = stages_[static_cast<std::size_t>(step.stage)];
  return stage.plan == nullptr ? nullptr : stage.plan->find(step.step - stage.first_step + 1, false);
}

}  // namespace trainer
