#include "engine/findings/fit_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "datasets/dataset.h"
#include "engine/bytes.h"
#include "engine/config/fields/model_numbers.h"
#include "engine/config/key_effects.h"
#include "engine/config/key_values.h"
#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/errors.h"
#include "engine/findings/kept_segments.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/run_checks.h"

namespace trainer {

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

FitSearch::FitSearch(const FitRequest& request, const std::vector<std::string>& overrides, const DeviceSource& devices,
                     const FitSearch* other)
    : loaded(load_asked(request, overrides)),
      data(other != nullptr && !has_other_data(loaded, other->loaded) ? other->data
                                                                      : describe_data(loaded.data, loaded.seed)),
      target(find_plan_target(devices, loaded, data, request.gpu, request.capacity)),
      experiment(with_kept_segments(loaded, target)),
      planner(*target.device, target.rates, request.watch) {}

bool FitSearch::knows_links() const {
  return num_ranks() == 1 || slowest_link({num_ranks()}, target.rates.links).has_value();
}

FitFindings begin_findings(const FitRequest& request, const FitSearch& search) {
  const PlanTarget& target = search.target;
  FitFindings findings;
  findings.experiment_name = search.experiment.name;
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
  findings.num_ranks = search.num_ranks();
  findings.knows_links = search.knows_links();
  findings.rates = target.rates.origin;
  findings.rates_source = target.rates.source;
  findings.asked_batch_size = search.experiment.train.batch_size.number();
  return findings;
}

void note_batch(const RunSchedule& schedule, FitFindings& findings) {
  findings.batch_size = schedule.batch_size();
  if (std::optional<std::string> text = smaller_batch_text(findings.asked_batch_size, findings.batch_size))
    findings.notes.push_back(*std::move(text) + '.');
}

void note_as_is(const FitSearch& search, const Verdict& as_is, FitFindings& findings) {
  const Experiment settled =
      settle_experiment(search.experiment, search.data, *search.target.device, search.capacity());
  const RunSchedule schedule(settled, search.data);
  note_batch(schedule, findings);
  findings.as_is_fits = as_is.fits;
  findings.as_is_peak = as_is.peak_reserved;
  findings.effective_batch = schedule.step(1).num_samples;
}

namespace {

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

}  // namespace

void note_later_stage(const FitRequest& request, const Experiment& asked, const std::vector<std::string>& set,
                      const DeviceSource& devices, Planner& planner, FitFindings& findings) {
  if (std::optional<std::string> text = later_stage_text(request, asked, set, devices, planner))
    findings.notes.push_back(*std::move(text));
}

ChoiceOptions choice_options(const FitRequest& request) {
  ChoiceOptions options;
  if (request.keeps_result) options.keep = ChoiceOptions::Keep::same_result;
  return options;
}

NumbersEffect effect_of_other_ranks(const Experiment& experiment) {
  if (experiment.parallel.deterministic) return NumbersEffect::same_bits;
  return depends_on_ranks(experiment) ? NumbersEffect::other : NumbersEffect::same_rounding;
}

std::vector<Change> best_few(const std::vector<Change>& choices) {
  std::size_t fastest = 0, fastest_same = 0;
  for (std::size_t i = 1; i < choices.size(); ++i) {
    if (choices[i].step_seconds < choices[fastest].step_seconds) fastest = i;
    if (choices[i].same_result() && choices[i].step_seconds < choices[fastest_same].step_seconds) fastest_same = i;
  }
  std::vector<Change> few;
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (i == 0 || i == fastest || i == fastest_same) few.push_back(choices[i]);
  return few;
}

}  // namespace trainer
