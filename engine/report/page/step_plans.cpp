#include "engine/report/page/step_plans.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "engine/config/text/json_input.h"

namespace trainer {
namespace {

constexpr std::int64_t most_first_step = std::int64_t{1} << 53;

}  // namespace

StepPlans::StepPlans(const RunRecord& run, std::span<const TracedPlan> plans) try {
  std::unordered_map<std::string, std::int64_t> first_steps;
  for (const Json& event : run.stages) {
    const JsonInput<Json> input(event);
    first_steps[input.at("stage").text()] = input.at("first_step").integer(1, most_first_step);
  }
  for (const std::string& name : run.stage_names) {
    Stage stage;
    for (const TracedPlan& traced : plans)
      if (plans.size() == 1 || traced.findings.stage == name) stage.plan = &traced.findings.shown();
    if (const auto found = first_steps.find(name); found != first_steps.end()) stage.first_step = found->second;
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
