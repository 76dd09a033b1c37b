#include "engine/findings/find_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "datasets/dataset.h"
#include "engine/bytes.h"
#include "engine/config/fields/integer_key.h"
#include "engine/config/key_effects.h"
#include "engine/config/key_values.h"
#include "engine/config/load_experiment.h"
#include "engine/config/override_text.h"
#include "engine/config/stages.h"
#include "engine/config/text/number_text.h"
#include "engine/errors.h"
#include "engine/findings/kept_segments.h"
#include "engine/findings/plan_target.h"
#include "engine/plan/search/choices.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/run_checks.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

/// What `--max` says: KEY, or KEY=LOWEST..HIGHEST.
struct SearchedKey {
  std::string key;
  std::optional<std::int64_t> lowest, highest;
};

SearchedKey parse_searched_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  SearchedKey searched{text.substr(0, equals), {}, {}};
  if (equals == std::string::npos) return searched;
  const std::string range = text.substr(equals + 1);
  const std::size_t dots = range.find("..");
  const auto read = [](const std::string& number) -> std::optional<std::int64_t> {
    const auto value = read_integer(number);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    return std::nullopt;
  };
  if (dots != std::string::npos) {
    searched.lowest = read(range.substr(0, dots));
    searched.highest = read(range.substr(dots + 2));
  }
  if (!searched.lowest || !searched.highest || *searched.lowest > *searched.highest)
    throw ConfigError(fmt::format("--max '{}': '{}' is not a range; write LOWEST..HIGHEST, such as {}=1..512", text,
                                  range, searched.key));
  return searched;
}

/// Whether the data is not the same, be it by keys that are computed from others.
bool has_other_data(const Experiment& a, const Experiment& b) {
  const auto differs = [&](const KeyEffects& each) {
    return (each.key.starts_with("data.") || each.key == "seed") && !has_same_value(each.key, a, b);
  };
  return std::any_of(key_effects().begin(), key_effects().end(), differs);
}

Experiment load_asked(const FitRequest& request, const std::vector<std::string>& overrides) {
  Experiment experiment = load_experiment(request.config_path, overrides);
  if (request.stage.empty()) return experiment;
  return *experiment.stages[find_stage(experiment, request.stage, "--stage")].experiment;
}

Maximum find_maximum_of(const FitRequest& request, const Experiment& experiment, const SearchedKey& searched,
                        Planner& planner, std::int64_t capacity) {
  IntegerRange allowed = integer_range_of(searched.key, experiment.layers);
  std::optional<std::int64_t> highest = searched.highest;
  const auto parameter = std::find_if(experiment.model_parameters.begin(), experiment.model_parameters.end(),
                                      [&](const IntegerParameter& each) { return each.key == searched.key; });
  const bool is_parameter = parameter != experiment.model_parameters.end();
  if (is_parameter && !parameter->one_of.empty()) {
    const auto [least, most] = std::minmax_element(parameter->one_of.begin(), parameter->one_of.end());
    allowed = {*least, *most};
    if (!highest) highest = *most;
  }
  std::int64_t lowest = searched.lowest.value_or(std::max<std::int64_t>(allowed.lowest, 1));
  const auto load_with = [&](std::int64_t value) {
    std::vector<std::string> overrides = request.overrides;
    overrides.push_back(fmt::format("{}{}={}", experiment.override_prefix, searched.key, value));
    Experiment loaded = load_asked(request, overrides);
    loaded.memory.kept = experiment.memory.kept;
    return loaded;
  };
  // A place that is not in this model is a mistake, and no value of it fits. Of a parameter not every value can be.
  const Experiment first = is_parameter ? experiment : load_with(std::clamp(lowest, allowed.lowest, allowed.highest));
  const DataDescription data = describe_data(first.data, first.seed);
  // What an expression makes of a value need not grow with it.
  const bool is_computed = searched.key.starts_with("model.with.") || searched.key.starts_with("model.blocks.") ||
                           first.computed_from.contains(searched.key);
  const WithValue with_value = [&](std::int64_t value) -> std::optional<Candidate> {
    try {
      Candidate candidate{load_with(value), data, is_computed};
      if (has_other_data(candidate.experiment, first))
        candidate.data = describe_data(candidate.experiment.data, candidate.experiment.seed);
      return candidate;
    } catch (const ConfigError&) {
      return std::nullopt;
    } catch (const DataError&) {
      return std::nullopt;
    }
  };
  const bool is_batch = searched.key == "train.batch_size";
  if (is_batch && !searched.lowest) lowest = std::max(lowest, experiment.parallel.data);
  if (is_batch && lowest > data.num_train)
    throw ConfigError(fmt::format("--max '{}': the data set has {} training samples, and no batch has more; write {}",
                                  request.max, data.num_train, fmt::format("{}=1..{}", searched.key, data.num_train)));
  if (is_batch) highest = std::min(highest.value_or(data.num_train), data.num_train);
  std::optional<std::int64_t> own;
  if (is_batch) own = load_asked(request, request.overrides).train.batch_size.number();
  Maximum maximum = find_maximum(
      planner, with_value,
      {.lowest = lowest, .highest = highest, .largest_allowed = allowed.highest, .capacity = capacity, .own = own});
  maximum.key = searched.key;
  maximum.ends_at_data = is_batch && maximum.highest == data.num_train;
  return maximum;
}

/// Of the experiment as it is.
void note_batch(const RunSchedule& schedule, FitFindings& findings) {
  findings.batch_size = schedule.batch_size();
  if (std::optional<std::string> text = smaller_batch_text(findings.asked_batch_size, findings.batch_size))
    findings.notes.push_back(*std::move(text) + '.');
}

/// What a stage cannot under what another one was changed to, and why; empty: it fits.
std::string problem_of(const Experiment& stage, const std::string& with, const FitRequest& request,
                       const DeviceSource& devices, Planner& planner) {
  const DataDescription data = describe_data(stage.data, stage.seed);
  const PlanTarget target = find_plan_target(devices, stage, data, request.gpu, request.capacity);
  const Verdict verdict = planner.plan(stage, data, target.capacity.num_bytes);
  if (verdict.problem) throw *verdict.problem;
  if (verdict.fits) return "";
  return fmt::format("does not fit {}: it would reserve {} of {}.", with, format_bytes(verdict.peak_reserved),
                     format_bytes(target.capacity.num_bytes));
}

/// A line that is told to paste changes the stage that was asked about, and those behind it that do not say otherwise:
/// the first of these that cannot be trained with `set`, which may be empty, as a sentence.
std::optional<std::string> later_stage_text(const FitRequest& request, const Experiment& asked,
                                            const std::vector<std::string>& set, const DeviceSource& devices,
                                            Planner& planner) {
  if (!asked.source->stage) return std::nullopt;
  std::vector<std::string> overrides = request.overrides;
  overrides.insert(overrides.end(), set.begin(), set.end());
  const std::string with = set.empty() ? "as it is" : fmt::format("with {}", fmt::join(set, " "));
  std::string who = "a later stage";
  const auto cannot_be = [&](std::string_view why) {
    return fmt::format("{} cannot be trained {}: {}.", who, with, why.substr(0, why.find('\n')));
  };
  try {
    const Experiment whole = load_experiment(request.config_path, overrides);
    for (std::size_t i = *asked.source->stage + 1; i < whole.stages.size(); ++i) {
      const Experiment& later = *whole.stages[i].experiment;
      who = fmt::format("the later stage {}", later.stage);
      if (const std::string problem = problem_of(later, with, request, devices, planner); !problem.empty())
        return fmt::format("{} {}", who, problem);
    }
  } catch (const ConfigError& error) {
    return cannot_be(error.what());
  } catch (const DataError& error) {
    return cannot_be(error.what());
  }
  return std::nullopt;
}

void note_later_stage(const FitRequest& request, const Experiment& asked, const std::vector<std::string>& set,
                      const DeviceSource& devices, Planner& planner, FitFindings& findings) {
  if (std::optional<std::string> text = later_stage_text(request, asked, set, devices, planner))
    findings.notes.push_back(*std::move(text));
}

}  // namespace

std::size_t FitFindings::fastest() const {
  const auto fastest = std::min_element(
      choices.begin(), choices.end(), [](const Change& a, const Change& b) { return a.step_seconds < b.step_seconds; });
  return static_cast<std::size_t>(fastest - choices.begin());
}

FitFindings find_fit(const FitRequest& request, const DeviceSource& devices, const RatesProblemSink& on_rates_problem) {
  const Experiment loaded = load_asked(request, request.overrides);
  const DataDescription data = describe_data(loaded.data, loaded.seed);
  const PlanTarget target = find_plan_target(devices, loaded, data, request.gpu, request.capacity);
  const Experiment experiment = with_kept_segments(loaded, target);
  on_rates_problem(target.rates_problem);
  FitFindings findings;
  findings.experiment_name = experiment.name;
  findings.config_path = request.config_path;
  findings.capacity_given = request.capacity;
  findings.overrides = request.overrides;
  findings.device_kind = target.device->kind();
  findings.device_name = target.device->name();
  findings.profile = target.profile;
  findings.capacity = target.capacity.num_bytes;
  findings.capacity_origin = target.capacity.origin;
  findings.notes = target.notes;
  findings.outside_allocator = target.device->outside_allocator();
  findings.num_ranks = experiment.parallel.data;
  findings.knows_links = findings.num_ranks == 1 || slowest_link(findings.num_ranks, target.rates.links).has_value();
  findings.rates = target.rates.origin;
  findings.rates_source = target.rates.source;
  Planner planner(*target.device, target.rates, request.watch);
  findings.asked_batch_size = experiment.train.batch_size.number();
  if (!request.max.empty()) {
    const SearchedKey searched = parse_searched_key(request.max);
    if (searched.key != "train.batch_size" && findings.asked_batch_size)
      note_batch(RunSchedule(experiment, data), findings);
    findings.maximum = find_maximum_of(request, experiment, searched, planner, findings.capacity);
    Maximum& maximum = *findings.maximum;
    maximum.key.insert(0, experiment.override_prefix);
    if (const std::optional<std::int64_t> value = maximum.value())
      note_later_stage(request, experiment, {fmt::format("{}={}", maximum.key, *value)}, devices, planner, findings);
    return findings;
  }
  const Experiment settled = settle_experiment(experiment, data, *target.device, findings.capacity);
  note_batch(RunSchedule(settled, data), findings);
  const Verdict as_is = planner.plan(experiment, data, findings.capacity);
  // Where the device cannot run it as it is, the reason is what the user wants to hear.
  if (as_is.problem) throw ConfigError(*as_is.problem);
  findings.as_is_fits = as_is.fits;
  findings.as_is_peak = as_is.peak_reserved;
  findings.effective_batch = RunSchedule(settled, data).step(1).num_samples;
  ChoiceOptions options;
  if (request.keeps_result) options.keep = ChoiceOptions::Keep::same_result;
  findings.choices = find_choices(planner, experiment, data, findings.capacity, options);
  std::stable_sort(findings.choices.begin(), findings.choices.end(), is_advised_before);
  for (Change& choice : findings.choices) add_prefix(choice.set, experiment.override_prefix);
  if (findings.choices.empty()) return findings;
  // Of those that are told to paste.
  note_later_stage(request, experiment, findings.choices.front().set, devices, planner, findings);
  if (const std::size_t fastest = findings.fastest(); fastest > 0)
    note_later_stage(request, experiment, findings.choices[fastest].set, devices, planner, findings);
  return findings;
}

}  // namespace trainer
