#include "engine/report/page/page_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/report/page/recorded_ending.h"
#include "engine/report/page/step_plans.h"
#include "engine/report/page/thinned_curve.h"

namespace trainer {
namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t most_told_warnings = 200;

struct StepCurve {
  const char* name;
  std::function<double(const RecordedStep&)> value;
  bool is_optional = false;  ///< left out where it is never above 0
};

/// Curves over the same steps: those that any of them needs.
Json curves_of(const std::vector<RecordedStep>& steps, const std::vector<StepCurve>& curves, PageColumns& columns) {
  std::vector<std::pair<const char*, std::vector<double>>> values;
  std::vector<std::size_t> kept;
  for (const StepCurve& curve : curves) {
    std::vector<double> all;
    all.reserve(steps.size());
    for (const RecordedStep& step : steps) all.push_back(curve.value(step));
    if (curve.is_optional && std::none_of(all.begin(), all.end(), [](double value) { return value > 0; })) continue;
    const std::vector<std::size_t> positions = thinned_positions(all, most_points_of_curve);
    kept.insert(kept.end(), positions.begin(), positions.end());
    values.emplace_back(curve.name, std::move(all));
  }
  if (values.empty() || steps.empty()) return nullptr;
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  std::vector<std::int64_t> numbers;
  numbers.reserve(kept.size());
  for (const std::size_t position : kept) numbers.push_back(steps[position].step);
  Json json = {{"steps", columns.integers(numbers)}, {"of", steps.size()}, {"series", Json::array()}};
  for (const auto& [name, all] : values) {
    std::vector<double> thinned;
    thinned.reserve(kept.size());
    for (const std::size_t position : kept) thinned.push_back(all[position]);
    json["series"].push_back({{"name", name}, {"values", columns.numbers(thinned)}});
  }
  return json;
}

Json memory_curves(const RunRecord& run, const StepPlans& plans, PageColumns& columns) {
  const auto planned = [&plans](std::int64_t StepMemory::*value) {
    return [&plans, value](const RecordedStep& step) {
      const StepMemory* const memory = plans.find(step);
      return memory == nullptr ? no_number : static_cast<double>(memory->*value);
    };
  };
  const auto bytes = [](std::int64_t RecordedMemory::*value) {
    return [value](const RecordedStep& step) { return static_cast<double>(step.memory.*value); };
  };
  return curves_of(run.steps,
                   {{"peak allocated", bytes(&RecordedMemory::peak_allocated)},
                    {"allocated", bytes(&RecordedMemory::allocated)},
                    {"reserved", bytes(&RecordedMemory::reserved)},
                    {"used", bytes(&RecordedMemory::device_used)},
                    {"planned peak allocated", planned(&StepMemory::peak_allocated), true},
                    {"planned reserved", planned(&StepMemory::reserved), true}},
                   columns);
}

/// How many of the steps that were planned have the peaks that were planned.
Json planned_against_measured(const RunRecord& run, const StepPlans& plans) {
  std::int64_t num_compared = 0, num_equal = 0;
  for (const RecordedStep& step : run.steps) {
    const StepMemory* const planned = plans.find(step);
    if (planned == nullptr) continue;
    ++num_compared;
    if (planned->peak_requested == step.memory.peak_requested &&
        planned->peak_allocated == step.memory.peak_allocated && planned->peak_reserved == step.memory.peak_reserved)
      ++num_equal;
  }
  return {{"steps", num_compared}, {"equal", num_equal}};
}

Json evaluations_of(const RunRecord& run, PageColumns& columns) {
  std::vector<std::string> names;
  for (const RecordedEvaluation& evaluation : run.evaluations)
    for (const auto& [name, value] : evaluation.metrics)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::vector<double> losses;
  std::vector<std::int64_t> steps, best;
  for (const RecordedEvaluation& evaluation : run.evaluations) {
    steps.push_back(evaluation.step);
    losses.push_back(evaluation.loss);
    best.push_back(evaluation.best ? 1 : 0);
  }
  Json json = {{"steps", columns.integers(steps)}, {"best", columns.integers(best)}, {"series", Json::array()}};
  json["series"].push_back({{"name", "loss"}, {"values", columns.numbers(losses)}});
  for (const std::string& name : names) {
    std::vector<double> values;
    for (const RecordedEvaluation& evaluation : run.evaluations) {
      const auto is_named = [&](const auto& metric) { return metric.first == name; };
      const auto found = std::find_if(evaluation.metrics.begin(), evaluation.metrics.end(), is_named);
      values.push_back(found == evaluation.metrics.end() ? no_number : found->second);
    }
    json["series"].push_back({{"name", name}, {"values", columns.numbers(values)}});
  }
  return json;
}

/// Where each stage's steps begin and end, as far as it went.
Json stage_bands(const RunRecord& run) {
  Json bands = Json::array();
  for (const RecordedStep& step : run.steps) {
    const std::string& name = run.stage_names[static_cast<std::size_t>(step.stage)];
    if (bands.empty() || bands.back()["name"] != name)
      bands.push_back({{"name", name}, {"first", step.step}, {"last", step.step}});
    else
      bands.back()["last"] = step.step;
  }
  return bands;
}

/// The highest over the steps and evaluations that were told.
Json measured_peaks(const RunRecord& run) {
  std::int64_t requested = 0, allocated = 0, reserved = 0, used = 0;
  const auto take = [&](const RecordedMemory& memory) {
    requested = std::max(requested, memory.peak_requested);
    allocated = std::max(allocated, memory.peak_allocated);
    reserved = std::max(reserved, memory.peak_reserved);
    used = std::max(used, memory.device_used);
  };
  for (const RecordedStep& step : run.steps) take(step.memory);
  for (const RecordedEvaluation& evaluation : run.evaluations) take(evaluation.memory);
  return {{"requested", requested}, {"allocated", allocated}, {"reserved", reserved}, {"used", used}};
}

Json warnings_of(const RunRecord& run) {
  Json warnings = Json::array();
  for (std::size_t i = 0; i < std::min(run.warnings.size(), most_told_warnings); ++i)
    warnings.push_back({{"step", run.warnings[i].step}, {"message", run.warnings[i].message}});
  return warnings;
}

}  // namespace

Json page_run(const RunRecord& run, std::span<const TracedPlan> plans, PageColumns& columns) {
  const StepPlans step_plans(run, plans);
  Json json = {{"path", run.path},
               {"status", run.status()},
               {"device", {{"kind", run.device_kind}, {"name", run.device_name}}},
               {"capacity", run.capacity},
               {"version", run.trainer_version},
               {"starts", run.num_starts},
               {"parameters", run.parameters},
               {"batch_size", run.batch_size},
               {"total_steps", run.total_steps},
               {"steps_per_epoch", run.steps_per_epoch},
               {"num_steps", run.steps.size()},
               {"last_step", run.steps.empty() ? 0 : run.steps.back().step},
               {"num_warnings", run.warnings.size()},
               {"warnings", warnings_of(run)},
               {"checkpoints", run.checkpoints},
               {"stages", stage_bands(run)},
               {"peaks", measured_peaks(run)},
               {"planned", planned_against_measured(run, step_plans)},
               {"evaluations", evaluations_of(run, columns)}};
  json.update(recorded_ending(run));
  Json& curves = json["curves"] = Json::object();
  curves["loss"] = curves_of(run.steps, {{"loss", [](const auto& step) { return step.loss; }}}, columns);
  curves["learning_rate"] =
      curves_of(run.steps, {{"learning rate", [](const auto& step) { return step.learning_rate; }}}, columns);
  curves["speed"] = curves_of(run.steps,
                              {{"samples/s", [](const auto& step) { return step.samples_per_second; }},
                               {"tokens/s", [](const auto& step) { return step.tokens_per_second; }, true}},
                              columns);
  curves["time"] = curves_of(run.steps,
                             {{"step", [](const auto& step) { return step.seconds; }},
                              {"waiting for data", [](const auto& step) { return step.data_seconds; }}},
                             columns);
  curves["memory"] = memory_curves(run, step_plans, columns);
  curves["utilization"] = curves_of(run.steps, {{"mfu", [](const auto& step) { return step.mfu; }, true}}, columns);
  curves["loss_scale"] =
      curves_of(run.steps, {{"loss scale", [](const auto& step) { return step.loss_scale; }, true}}, columns);
  return json;
}

}  // namespace trainer
