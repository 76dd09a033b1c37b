#include "engine/findings/find_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "datasets/dataset.h"
#include "engine/bytes.h"
#include "engine/config/fields/integer_key.h"
#include "engine/config/fields/model_numbers.h"
#include "engine/config/key_effects.h"
#include "engine/config/key_values.h"
#include "engine/config/load_experiment.h"
#include "engine/config/override_text.h"
#include "engine/config/stages.h"
#include "engine/config/text/number_text.h"
#include "engine/errors.h"
#include "engine/findings/kept_segments.h"
#include "engine/findings/plan_target.h"
#include "engine/plan/memory_plan.h"
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

/// One number of ranks, and what plans for it: how much a rank has depends on how many there are.
struct RanksSearch {
  const Experiment loaded;
  const DataDescription data;
  const PlanTarget target;
  const Experiment experiment;
  Planner planner;

  RanksSearch(const FitRequest& request, const std::vector<std::string>& overrides, const DeviceSource& devices,
              const RanksSearch* other = nullptr)
      : loaded(load_asked(request, overrides)),
        data(other != nullptr && !has_other_data(loaded, other->loaded) ? other->data
                                                                        : describe_data(loaded.data, loaded.seed)),
        target(find_plan_target(devices, loaded, data, request.gpu, request.capacity)),
        experiment(with_kept_segments(loaded, target)),
        planner(*target.device, target.rates, request.watch) {}

  std::int64_t num_ranks() const { return experiment.parallel.data; }
  std::int64_t capacity() const { return target.capacity.num_bytes; }
  bool knows_links() const { return num_ranks() == 1 || slowest_link(num_ranks(), target.rates.links).has_value(); }
};

FitFindings begin_findings(const FitRequest& request, const RanksSearch& search) {
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

/// What of the experiment as it is is told.
void note_as_is(const RanksSearch& search, const Verdict& as_is, FitFindings& findings) {
  const Experiment settled =
      settle_experiment(search.experiment, search.data, *search.target.device, search.capacity());
  const RunSchedule schedule(settled, search.data);
  note_batch(schedule, findings);
  findings.as_is_fits = as_is.fits;
  findings.as_is_peak = as_is.peak_reserved;
  findings.effective_batch = schedule.step(1).num_samples;
}

ChoiceOptions choice_options(const FitRequest& request) {
  ChoiceOptions options;
  if (request.keeps_result) options.keep = ChoiceOptions::Keep::same_result;
  return options;
}

/// What becomes of the numbers where others share the batch: configs/PARALLEL.md, What each takes.
NumbersEffect effect_of_other_ranks(const Experiment& experiment) {
  if (experiment.parallel.deterministic) return NumbersEffect::same_bits;
  if (!experiment.data.batch_transforms.empty()) return NumbersEffect::other;
  if (depends_on_batch(experiment.layers) && !experiment.parallel.sync_batchnorm) return NumbersEffect::other;
  return NumbersEffect::same_rounding;
}

std::optional<double> efficiency_of(const Change& choice, RanksSearch& search) {
  if (search.num_ranks() == 1) return 1;
  if (!search.knows_links()) return std::nullopt;
  Experiment alone = choice.experiment;
  alone.parallel.data = 1;
  alone.parallel.shard = Shard::none;
  alone.memory.kept = nullptr;
  alone.kept_from = nullptr;
  const Verdict verdict = search.planner.plan(alone, search.data, unlimited_capacity);
  if (verdict.problem) return std::nullopt;
  return verdict.time.seconds / (static_cast<double>(search.num_ranks()) * choice.step_seconds);
}

/// Of one number of ranks' choices, the best first: the best, the fastest that keeps the result, and the fastest.
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

/// Says once why numbers of ranks were left out.
void note_left_out(FitFindings& findings) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> reasons;
  for (const SearchedRanks& each : findings.searched_ranks) {
    if (each.problem.empty()) continue;
    if (reasons.empty() || reasons.back().first != each.problem) reasons.push_back({each.problem, {}});
    reasons.back().second.push_back(each.num_ranks);
  }
  for (const auto& [reason, counts] : reasons)
    findings.notes.push_back(fmt::format("Left out: {} rank{}: {}.", counts_text(counts),
                                         counts == std::vector<std::int64_t>{1} ? "" : "s", reason));
}

/// Searches each number of ranks for itself, as for that number alone.
FitFindings find_over_ranks(const FitRequest& request, const DeviceSource& devices,
                            const RatesProblemSink& on_rates_problem) {
  std::vector<std::unique_ptr<RanksSearch>> searches;
  RanksSearch& own = *searches.emplace_back(std::make_unique<RanksSearch>(request, request.overrides, devices));
  on_rates_problem(own.target.rates_problem);
  FitFindings findings = begin_findings(request, own);
  const Verdict as_is = own.planner.plan(own.experiment, own.data, own.capacity());
  if (!as_is.problem) note_as_is(own, as_is, findings);
  double base_seconds = as_is.problem ? 0 : as_is.time.seconds;
  std::optional<ConfigError> first_problem;
  const auto search_with = [&](std::int64_t num_ranks) -> RanksSearch& {
    if (num_ranks == own.num_ranks()) return own;
    std::vector<std::string> overrides = request.overrides;
    std::erase_if(overrides, [](const std::string& each) { return each.starts_with("parallel.data="); });
    overrides.push_back(fmt::format("parallel.data={}", num_ranks));
    return *searches.emplace_back(std::make_unique<RanksSearch>(request, overrides, devices, &own));
  };
  const auto search_one = [&](SearchedRanks& searched) {
    RanksSearch& search = search_with(searched.num_ranks);
    const bool is_own = &search == &own;
    const NumbersEffect effect = is_own ? NumbersEffect::same_bits : effect_of_other_ranks(search.experiment);
    if (request.keeps_result && effect == NumbersEffect::other)
      throw ConfigError("a part of a batch has another result than the batch, and --keep same-result is asked for");
    searched.capacity = search.capacity();
    searched.knows_links = search.knows_links();
    const Verdict verdict = is_own ? as_is : search.planner.plan(search.experiment, search.data, search.capacity());
    if (verdict.problem) throw ConfigError(*verdict.problem);
    if (base_seconds == 0) base_seconds = verdict.time.seconds;
    if (findings.effective_batch == 0) {
      note_as_is(search, verdict, findings);
      findings.as_is_fits = false;
      findings.as_is_peak = 0;
    }
    std::vector<Change> choices =
        find_choices(search.planner, search.experiment, search.data, search.capacity(), choice_options(request));
    std::stable_sort(choices.begin(), choices.end(), is_advised_before);
    searched.fits = !choices.empty();
    for (Change& choice : best_few(choices)) {
      add_prefix(choice.set, search.experiment.override_prefix);
      if (!is_own) choice.set.insert(choice.set.begin(), fmt::format("parallel.data={}", searched.num_ranks));
      choice.numbers = std::max(choice.numbers, effect);
      choice.relative_step_time = choice.step_seconds / base_seconds;
      const std::optional<double> efficiency = efficiency_of(choice, search);
      findings.choices.push_back({std::move(choice), efficiency});
    }
  };
  for (const std::int64_t num_ranks : request.ranks->counts()) {
    if (request.watch != nullptr) request.watch->plans_for(fmt::format("{} ranks", num_ranks));
    SearchedRanks& searched = findings.searched_ranks.emplace_back();
    searched.num_ranks = num_ranks;
    try {
      search_one(searched);
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      searched.problem = text.substr(0, text.find('\n'));
      if (!first_problem) first_problem = error;
    }
  }
  const auto is_left_out = [](const SearchedRanks& each) { return !each.problem.empty(); };
  if (std::all_of(findings.searched_ranks.begin(), findings.searched_ranks.end(), is_left_out)) throw *first_problem;
  note_left_out(findings);
  std::stable_sort(findings.choices.begin(), findings.choices.end(), is_advised_before);
  if (findings.choices.empty()) return findings;
  const auto note_later = [&](const FitChoice& choice) {
    for (const auto& search : searches)
      if (search->num_ranks() == choice.num_ranks())
        note_later_stage(request, search->experiment, choice.set, devices, search->planner, findings);
  };
  note_later(findings.choices.front());
  if (const std::size_t fastest = findings.fastest(); fastest > 0) note_later(findings.choices[fastest]);
  return findings;
}

}  // namespace

std::size_t FitFindings::fastest() const {
  const auto fastest = std::min_element(
      choices.begin(), choices.end(), [](const Change& a, const Change& b) { return a.step_seconds < b.step_seconds; });
  return static_cast<std::size_t>(fastest - choices.begin());
}

FitFindings find_fit(const FitRequest& request, const DeviceSource& devices, const RatesProblemSink& on_rates_problem) {
  if (request.ranks) return find_over_ranks(request, devices, on_rates_problem);
  RanksSearch search(request, request.overrides, devices);
  const Experiment& experiment = search.experiment;
  const DataDescription& data = search.data;
  Planner& planner = search.planner;
  on_rates_problem(search.target.rates_problem);
  FitFindings findings = begin_findings(request, search);
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
  const Verdict as_is = planner.plan(experiment, data, findings.capacity);
  // Where the device cannot run it as it is, the reason is what the user wants to hear.
  if (as_is.problem) throw ConfigError(*as_is.problem);
  note_as_is(search, as_is, findings);
  std::vector<Change> choices = find_choices(planner, experiment, data, findings.capacity, choice_options(request));
  std::stable_sort(choices.begin(), choices.end(), is_advised_before);
  for (Change& choice : choices) findings.choices.push_back({std::move(choice), std::nullopt});
  for (Change& choice : findings.choices) add_prefix(choice.set, experiment.override_prefix);
  if (findings.choices.empty()) return findings;
  // Of those that are told to paste.
  note_later_stage(request, experiment, findings.choices.front().set, devices, planner, findings);
  if (const std::size_t fastest = findings.fastest(); fastest > 0)
    note_later_stage(request, experiment, findings.choices[fastest].set, devices, planner, findings);
  return findings;
}

}  // namespace trainer
