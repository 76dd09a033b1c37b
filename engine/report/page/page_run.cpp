#include "engine/report/page/page_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/report/page/recorded_ending.h"
#include "engine/report/page/step_plans.h"
#include "engine/report/page/thinned_curve.h"

namespace trainer {
namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// Of each list of what may come without end: more than a page shows with profit.
constexpr std::size_t most_told = 200;
/// Metrics of evaluations, a curve each.
constexpr std::size_t most_told_metrics = 50;

struct StepCurve {
  const char* name;
  std::function<double(const RecordedStep&)> value;
  bool is_optional = false;  ///< left out where it is never above 0
};

using NamedValues = std::pair<std::string, std::vector<double>>;

/// Curves over the same steps, with the points that any of them needs of at most `most_of_each`.
Json thinned_curves(const std::vector<std::int64_t>& steps, const std::vector<NamedValues>& curves,
                    std::size_t most_of_each, PageColumns& columns) {
  std::vector<std::size_t> kept;
  for (const auto& [name, values] : curves) {
    const std::vector<std::size_t> positions = thinned_positions(values, most_of_each);
    kept.insert(kept.end(), positions.begin(), positions.end());
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  const auto of_kept = [&kept](const auto& all) {
    std::decay_t<decltype(all)> some;
    some.reserve(kept.size());
    for (const std::size_t position : kept) some.push_back(all[position]);
    return some;
  };
  Json json = {{"steps", columns.integers(of_kept(steps))}, {"of", steps.size()}, {"series", Json::array()}};
  for (const auto& [name, values] : curves)
    json["series"].push_back({{"name", name}, {"values", columns.numbers(of_kept(values))}});
  return json;
}

Json curves_of(const std::vector<RecordedStep>& steps, const std::vector<StepCurve>& curves, PageColumns& columns) {
  std::vector<NamedValues> values;
  for (const StepCurve& curve : curves) {
    std::vector<double> all;
    all.reserve(steps.size());
    for (const RecordedStep& step : steps) all.push_back(curve.value(step));
    if (curve.is_optional && std::none_of(all.begin(), all.end(), [](double value) { return value > 0; })) continue;
    values.emplace_back(curve.name, std::move(all));
  }
  if (values.empty() || steps.empty()) return nullptr;
  std::vector<std::int64_t> numbers;
  numbers.reserve(steps.size());
  for (const RecordedStep& step : steps) numbers.push_back(step.step);
  return thinned_curves(numbers, values, most_points_of_curve, columns);
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
  std::vector<std::int64_t> steps;
  std::vector<NamedValues> curves = {{"loss", {}}};
  std::map<std::string, std::size_t> number_of;
  for (const RecordedEvaluation& evaluation : run.evaluations) {
    for (const auto& [name, value] : evaluation.metrics) {
      const auto [metric, is_new] = number_of.try_emplace(name, curves.size());
      if (is_new && curves.size() <= most_told_metrics)
        curves.emplace_back(name, std::vector<double>(steps.size(), no_number));
      if (metric->second < curves.size() && curves[metric->second].second.size() == steps.size())
        curves[metric->second].second.push_back(value);
    }
    steps.push_back(evaluation.step);
    curves.front().second.push_back(evaluation.loss);
    for (auto& [name, values] : curves) values.resize(steps.size(), no_number);
  }
  // All curves share their steps: the more curves there are, the fewer points each of them chooses.
  const std::size_t most_of_each = std::max<std::size_t>(64, most_points_of_curve / curves.size());
  Json json = thinned_curves(steps, curves, most_of_each, columns);
  json["num_metrics"] = number_of.size();
  return json;
}

/// Where each stage's steps begin and end, as far as it went; of the first stages, where there are too many.
Json stage_bands(const RunRecord& run) {
  Json bands = Json::array();
  for (const RecordedStep& step : run.steps) {
    const std::string& name = run.stage_names[static_cast<std::size_t>(step.stage)];
    if ((bands.empty() || bands.back()["name"] != name) && bands.size() == most_told) break;
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
  for (std::size_t i = 0; i < std::min(run.warnings.size(), most_told); ++i)
    warnings.push_back({{"step", run.warnings[i].step}, {"message", run.warnings[i].message}});
  return warnings;
}

/// Spread evenly over all of them, where there are too many.
std::vector<std::int64_t> checkpoints_of(const RunRecord& run) {
  const std::size_t count = run.checkpoints.size(), num_told = std::min(count, most_told);
  std::vector<std::int64_t> told;
  for (std::size_t i = 0; i < num_told; ++i) told.push_back(run.checkpoints[(i + 1) * count / num_told - 1]);
  return told;
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
               {"num_checkpoints", run.checkpoints.size()},
               {"checkpoints", checkpoints_of(run)},
               {"num_adaptations", run.adaptations.size()},
               {"stages", stage_bands(run)},
               {"peaks", measured_peaks(run)},
               {"planned", planned_against_measured(run, step_plans)},
               {"evaluations", evaluations_of(run, columns)}};
  json.update(recorded_ending(run));
  Json& adaptations = json["adaptations"];
  if (adaptations.size() > most_told)
    adaptations.erase(adaptations.begin() + static_cast<std::ptrdiff_t>(most_told), adaptations.end());
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
