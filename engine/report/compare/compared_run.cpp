#include "engine/report/compare/compared_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "engine/category.h"
#include "engine/config/text/json_input.h"
#include "engine/report/compare/figure_kinds.h"

namespace trainer {
namespace {

/// More than a plan of any network takes.
constexpr std::size_t longest_plan = std::size_t{256} << 20;

using FigureInput = JsonInput<Json>;
using Figures = std::map<std::string, double, std::less<>>;

void raise(Figures& figures, const std::string& key, double value) {
  const auto [place, is_new] = figures.emplace(key, value);
  if (!is_new) place->second = std::max(place->second, value);
}

void add_if_number(Figures& figures, const std::string& key, const FigureInput& object, std::string_view name) {
  const std::optional<FigureInput> value = object.find(name);
  if (value && !value->is_null()) figures[key] = value->number();
}

double of_bytes(const FigureInput& object, std::string_view name) {
  return static_cast<double>(object.at(name).integer());
}

void add_categories(Figures& figures, const FigureInput& by_category) {
  for (const std::string_view category : category_names)
    if (by_category.find(category)) figures[fmt::format("memory.{}", category)] = of_bytes(by_category, category);
}

void add_peaks(Figures& figures, const FigureInput& object) {
  for (const char* const peak : {"requested", "allocated", "reserved"})
    raise(figures, fmt::format("memory.{}", peak), of_bytes(object, fmt::format("peak_{}", peak)));
}

void add_step_memory(Figures& figures, const RunRecord& record) {
  const RecordedStep* steady = nullptr;
  const auto add = [&](const RecordedMemory& memory) {
    raise(figures, "memory.requested", static_cast<double>(memory.peak_requested));
    raise(figures, "memory.allocated", static_cast<double>(memory.peak_allocated));
    raise(figures, "memory.reserved", static_cast<double>(memory.peak_reserved));
    raise(figures, "memory.used", static_cast<double>(memory.device_used));
  };
  for (const RecordedStep& step : record.steps) {
    add(step.memory);
    if (steady == nullptr || step.samples >= steady->samples) steady = &step;
  }
  for (const RecordedEvaluation& evaluation : record.evaluations) add(evaluation.memory);
  if (steady == nullptr) return;
  figures["memory.steady.requested"] = static_cast<double>(steady->memory.peak_requested);
  figures["memory.steady.allocated"] = static_cast<double>(steady->memory.peak_allocated);
  figures["memory.steady.reserved"] = static_cast<double>(steady->memory.peak_reserved);
  figures["memory.held"] = static_cast<double>(steady->memory.allocated);
}

/// The middle one, or the mean of the two in the middle.
double median_of(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const std::size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

void add_speed(Figures& figures, const RunRecord& record) {
  const auto is_first = [&](const RecordedStep& step) {
    return std::find(record.first_steps.begin(), record.first_steps.end(), step.step) != record.first_steps.end();
  };
  const bool has_later =
      std::any_of(record.steps.begin(), record.steps.end(), [&](const RecordedStep& step) { return !is_first(step); });
  double samples = 0, tokens = 0, seconds = 0, data_seconds = 0, weighted_mfu = 0;
  std::vector<double> step_seconds;
  for (const RecordedStep& step : record.steps) {
    if (has_later && is_first(step)) continue;
    samples += static_cast<double>(step.samples);
    tokens += step.tokens_per_second * step.seconds;
    weighted_mfu += step.mfu * step.seconds;
    seconds += step.seconds;
    data_seconds += step.data_seconds;
    step_seconds.push_back(step.seconds);
  }
  if (!(seconds > 0)) return;
  figures["speed.samples"] = samples / seconds;
  if (tokens > 0) figures["speed.tokens"] = tokens / seconds;
  figures["speed.step"] = median_of(std::move(step_seconds));
  figures["speed.data"] = data_seconds / seconds;
  if (weighted_mfu > 0) figures["speed.mfu"] = weighted_mfu / seconds;
}

/// The last one, and the best of those that are finite.
void add_result(Figures& figures, const std::string& key, double value) {
  figures[key] = value;
  const FigureKind* const kind = figure_kind(key);
  if (kind == nullptr || std::isnan(value)) return;
  const auto [best, is_new] = figures.emplace(key + ".best", value);
  if (!is_new)
    best->second = kind->worse == WorseIf::more ? std::min(best->second, value) : std::max(best->second, value);
}

void add_end(Figures& figures, const RunRecord& record) {
  if (!record.end) return;
  const FigureInput end(*record.end);
  add_if_number(figures, "seconds", end, "seconds");
  add_if_number(figures, "memory.resident", end, "peak_resident");
  // What was refused by its plan held nothing, and its peaks are 0.
  if (record.steps.empty() && record.evaluations.empty()) return;
  add_peaks(figures, end);
  raise(figures, "memory.used", of_bytes(end, "peak_used"));
  if (const std::optional<FigureInput> by_category = end.find("peak_by_category"))
    add_categories(figures, *by_category);
}

/// The configuration with what a run was adapted to, by the adapt events that it told or goes on with. A run that goes
/// on may tell both of what came before; of each key the last value holds.
Json config_of(const RunRecord& record) {
  Json config = record.config;
  std::map<std::string, std::string> adapted;
  const auto add = [&](const FigureInput& list) {
    for (const FigureInput& word : list.items()) {
      const std::string text = word.text();
      const std::size_t equals = std::min(text.find('='), text.size());
      adapted[text.substr(0, equals)] = text.substr(std::min(equals + 1, text.size()));
    }
  };
  if (const auto set = FigureInput(record.start).find("adapted"); set && !set->is_null()) add(*set);
  for (const Json& event : record.adaptations) add(FigureInput(event).at("set"));
  for (const auto& [key, value] : adapted) config["adapted"][key] = value;
  return config;
}

void take_plan(ComparedRun& run, const FigureInput& plan) {
  run.is_plan = true;
  run.name = plan.at("name").text();
  run.status = plan.at("fits").boolean() ? "fits" : "does not fit";
  run.device_kind = plan.at("device").at("kind").text();
  run.device_name = plan.at("device").at("name").text();
  Figures& figures = run.figures;
  add_peaks(figures, plan);
  add_categories(figures, plan.at("by_category"));
  const FigureInput steady = plan.at("steady_step");
  for (const char* const peak : {"requested", "allocated", "reserved"})
    figures[fmt::format("memory.steady.{}", peak)] = of_bytes(steady, fmt::format("peak_{}", peak));
  figures["memory.held"] = of_bytes(steady, "allocated");
  if (const auto process = plan.find("process"); process && !process->is_null())
    add_if_number(figures, "memory.resident", *process, "expected_resident_peak");
  figures["capacity"] = of_bytes(plan, "capacity");
  // Of a plan with stages what follows is of the one that holds most, and of no run.
  if (plan.find("stages")) return;
  figures["batch_size"] = of_bytes(plan, "batch_size");
  figures["total_steps"] = of_bytes(plan, "total_steps");
  add_if_number(figures, "speed.samples", plan, "samples_per_second");
  add_if_number(figures, "speed.tokens", plan, "tokens_per_second");
  add_if_number(figures, "speed.step", plan, "step_seconds");
}

/// The first line of a file, where it is the object of an event; else null.
std::optional<Json> first_event_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  for (char letter = 0; file.get(letter) && letter != '\n';) {
    line += letter;
    if (line.size() > longest_plan) return std::nullopt;
  }
  std::optional<Json> json = parse_json<Json>(line);
  if (!json || !json->is_object()) return std::nullopt;
  return json;
}

}  // namespace

std::optional<double> ComparedRun::figure(std::string_view key) const {
  const auto found = figures.find(key);
  if (found == figures.end()) return std::nullopt;
  return found->second;
}

ComparedRun compared_run(const RunRecord& record) {
  ComparedRun run{.path = record.folder.empty() ? record.path : record.folder,
                  .name = record.name,
                  .status = record.status(),
                  .device_kind = record.device_kind,
                  .device_name = record.device_name,
                  .version = record.trainer_version};
  Figures& figures = run.figures;
  add_step_memory(figures, record);
  add_speed(figures, record);
  for (const RecordedEvaluation& evaluation : record.evaluations) {
    add_result(figures, "loss", evaluation.loss);
    for (const auto& [metric, value] : evaluation.metrics) add_result(figures, metric, value);
  }
  for (const RecordedStep& step : record.steps) add_result(figures, "train_loss", step.loss);
  figures["steps"] = record.steps.empty() ? 0 : static_cast<double>(record.steps.back().step);
  figures["epochs"] = record.steps.empty() ? 0 : static_cast<double>(record.steps.back().epoch);
  figures["parameters"] = static_cast<double>(record.parameters);
  figures["batch_size"] = static_cast<double>(record.batch_size);
  figures["total_steps"] = static_cast<double>(record.total_steps);
  figures["capacity"] = static_cast<double>(record.capacity);
  figures["warnings"] = static_cast<double>(record.warnings.size());
  try {
    run.config = config_of(record);
    add_end(figures, record);
  } catch (const JsonMistake& mistake) {
    throw DataError(fmt::format("{}: {}", record.path, mistake.what()));
  }
  return run;
}

ComparedRun read_compared_run(const std::string& path) {
  std::error_code ignored;
  // Opening a pipe would wait for who writes it.
  if (std::filesystem::is_regular_file(path, ignored)) {
    if (const std::optional<Json> json = first_event_of(path)) {
      const FigureInput event(*json);
      const std::optional<FigureInput> name = event.find("event");
      try {
        if (name && name->text() == "plan") {
          ComparedRun plan{.path = path};
          take_plan(plan, event);
          return plan;
        }
        if (name && name->text() == "plans")
          throw DataError(fmt::format(
              "'{}' has plans of several targets; write that of one (plan CONFIG --json --gpu PROFILE > FILE)", path));
      } catch (const JsonMistake& mistake) {
        throw DataError(fmt::format("{}: {}", path, mistake.what()));
      }
    }
  }
  ComparedRun run = compared_run(read_run(path));
  run.path = path;
  return run;
}

}  // namespace trainer
