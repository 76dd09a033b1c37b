#include "engine/report/compare/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/config/text/json_output.h"
#include "engine/errors.h"

namespace trainer {
namespace {

std::string_view name_of_unit(FigureUnit unit) {
  switch (unit) {
    case FigureUnit::bytes:
      return "bytes";
    case FigureUnit::count:
      return "count";
    case FigureUnit::seconds:
      return "seconds";
    case FigureUnit::rate:
      return "per_second";
    case FigureUnit::share:
      return "share";
    case FigureUnit::number:
      return "number";
  }
  return "";
}

Json json_of_direction(WorseIf worse) {
  if (worse == WorseIf::neither) return nullptr;
  return worse == WorseIf::more ? "more" : "less";
}

/// Of bytes and counts an integer; null where it is not known or not finite.
Json json_of_figure(FigureUnit unit, const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  if (unit == FigureUnit::bytes || unit == FigureUnit::count) return static_cast<std::int64_t>(std::llround(*value));
  return *value;
}

Json json_of_compared(const ComparedFigure& figure) {
  Json values = Json::array(), differences = Json::array(), relative = Json::array();
  const std::optional<double>& reference = figure.values.front();
  for (const std::optional<double>& value : figure.values) {
    values.push_back(json_of_figure(figure.kind->unit, value));
    const bool has_both = reference && value;
    differences.push_back(
        json_of_figure(figure.kind->unit, has_both ? std::optional(*value - *reference) : std::nullopt));
    const double share = has_both ? (*value - *reference) / std::abs(*reference) : NAN;
    relative.push_back(std::isfinite(share) ? Json(share) : Json(nullptr));
  }
  return {{"key", figure.kind->key},
          {"unit", name_of_unit(figure.kind->unit)},
          {"worse_if", json_of_direction(figure.kind->worse)},
          {"values", std::move(values)},
          {"differences", std::move(differences)},
          {"relative", std::move(relative)}};
}

Json json_of_result(const CheckResult& result) {
  const FigureKind* const kind = figure_kind(result.key);
  const FigureUnit unit = kind == nullptr ? FigureUnit::count : kind->unit;
  return {{"key", result.key},
          {"tolerance", result.tolerance},
          {"run", result.run},
          {"reference", json_of_figure(unit, result.reference)},
          {"value", json_of_figure(unit, result.value)},
          {"passed", result.passed}};
}

}  // namespace

bool RunComparison::passed() const {
  return std::all_of(checks.begin(), checks.end(), [](const CheckResult& result) { return result.passed; });
}

std::string run_letter(std::size_t run) { return std::string(1, static_cast<char>('A' + run)); }

RunComparison compare_runs(std::vector<ComparedRun> runs, const std::vector<RunCheck>& checks) {
  require_internal(!runs.empty() && runs.size() <= most_compared_runs, "as many runs are compared as have letters");
  RunComparison comparison{.runs = std::move(runs), .config = {}, .figures = {}, .checks = {}};
  std::vector<const Json*> configs;
  for (const ComparedRun& run : comparison.runs) configs.push_back(run.config ? &*run.config : nullptr);
  comparison.config = config_differences(configs);
  for (const FigureKind& kind : figure_kinds()) {
    ComparedFigure figure{.kind = &kind, .values = {}};
    for (const ComparedRun& run : comparison.runs) figure.values.push_back(run.figure(kind.key));
    const bool is_known = std::any_of(figure.values.begin(), figure.values.end(),
                                      [](const std::optional<double>& value) { return value.has_value(); });
    if (is_known) comparison.figures.push_back(std::move(figure));
  }
  comparison.checks = check_runs(comparison.runs, comparison.config, checks);
  return comparison;
}

std::string run_comparison_json(const RunComparison& comparison) {
  Json runs = Json::array(), config = Json::array(), figures = Json::array(), checks = Json::array();
  for (const ComparedRun& run : comparison.runs)
    runs.push_back({{"path", run.path},
                    {"name", run.name},
                    {"kind", run.is_plan ? "plan" : "run"},
                    {"status", run.status},
                    {"device", {{"kind", run.device_kind}, {"name", run.device_name}}},
                    {"version", run.is_plan ? Json(nullptr) : Json(run.version)}});
  for (const ConfigDifference& difference : comparison.config) {
    Json values = Json::array();
    for (const std::optional<Json>& value : difference.values) values.push_back(value.value_or(nullptr));
    config.push_back({{"key", difference.key}, {"is_name", difference.is_name}, {"values", std::move(values)}});
  }
  for (const ComparedFigure& figure : comparison.figures) figures.push_back(json_of_compared(figure));
  for (const CheckResult& result : comparison.checks) checks.push_back(json_of_result(result));
  return json_text({{"event", "comparison"},
                    {"schema", event_schema_version},
                    {"runs", std::move(runs)},
                    {"config", std::move(config)},
                    {"figures", std::move(figures)},
                    {"checks", std::move(checks)},
                    {"passed", comparison.passed()}});
}

}  // namespace trainer
