#include "engine/findings/find_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "datasets/dataset.h"
#include "engine/config/fields/integer_key.h"
#include "engine/config/load_experiment.h"
#include "engine/config/override_text.h"
#include "engine/config/text/number_text.h"
#include "engine/errors.h"
#include "engine/findings/fit_over_layouts.h"
#include "engine/findings/fit_over_ranks.h"
#include "engine/findings/fit_search.h"
#include "engine/plan/search/excluded_values.h"
#include "engine/plan/search/fitting_cut.h"

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

/// Whether an expression reads the key, in what is searched or in another stage, which all are loaded together.
bool is_computed_from(const FitRequest& request, const std::string& key) {
  const Experiment whole = load_experiment(request.config_path, request.overrides);
  return whole.computed_from.contains(key) || std::ranges::any_of(whole.stages, [&](const StageConfig& stage) {
           return stage.experiment->computed_from.contains(key);
         });
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
                           is_computed_from(request, searched.key);
  const WithValue load_value = [&](std::int64_t value) -> std::optional<Candidate> {
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
  // Where no other key follows from it, the file need not be read again for each of a million batch sizes.
  const auto nothing_follows = [&] {
    const std::optional<Candidate> low = load_value(lowest), high = load_value(*highest);
    return low && high && lowest < *highest && differ_in_batch_only(*low, *high);
  };
  WithValue with_value = load_value;
  if (is_batch && !is_computed && nothing_follows())
    with_value = [&](std::int64_t value) -> std::optional<Candidate> {
      Candidate candidate{first, data};
      candidate.experiment.train.batch_size = value;
      return candidate;
    };
  Maximum maximum = find_maximum(
      planner, with_value,
      {.lowest = lowest, .highest = highest, .largest_allowed = allowed.highest, .capacity = capacity, .own = own});
  maximum.key = searched.key;
  maximum.ends_at_data = is_batch && maximum.highest == data.num_train;
  return maximum;
}

}  // namespace

std::size_t FitFindings::fastest() const {
  const auto fastest = std::min_element(
      choices.begin(), choices.end(), [](const Change& a, const Change& b) { return a.step_seconds < b.step_seconds; });
  return static_cast<std::size_t>(fastest - choices.begin());
}

std::vector<std::size_t> FitFindings::pasted() const {
  std::size_t fastest_same = 0;
  for (std::size_t i = 1; i < choices.size(); ++i)
    if (choices[i].same_result() && choices[i].step_seconds < choices[fastest_same].step_seconds) fastest_same = i;
  std::set<std::size_t> all = {0, fastest()};
  if (choices.front().same_result()) all.insert(fastest_same);
  return {all.begin(), all.end()};
}

FitFindings find_fit(const FitRequest& request, const DeviceSource& devices, const RatesProblemSink& on_rates_problem) {
  if (request.ranks) return find_fit_over_ranks(request, devices, on_rates_problem);
  if (request.nodes) return find_fit_over_layouts(request, devices, on_rates_problem);
  FitSearch search(request, request.overrides, devices);
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
    if (experiment.parallel.pipeline > 1 && experiment.parallel.cut.empty())
      findings.notes.emplace_back(
          "Each value was tried with the stages that are fastest, whether they fit or not: with another parallel.cut, "
          "which 'plan' looks for, larger ones may fit.");
    if (const std::optional<std::int64_t> value = maximum.value())
      note_later_stage(request, experiment, {fmt::format("{}={}", maximum.key, *value)}, devices, planner, findings);
    return findings;
  }
  const Experiment cut = with_settled_cut(experiment, data, planner.device(), findings.capacity);
  if (const std::string text = settled_cut_text(experiment, cut); !text.empty()) findings.notes.push_back(text + '.');
  const Verdict as_is = planner.plan(cut, data, findings.capacity);
  // Where the device cannot run it as it is, the reason is what the user wants to hear.
  if (as_is.problem) throw ConfigError(*as_is.problem);
  note_as_is(search, as_is, findings);
  std::vector<Change> choices = find_choices(planner, cut, data, findings.capacity, choice_options(request));
  std::stable_sort(choices.begin(), choices.end(), is_advised_before);
  for (Change& choice : choices) findings.choices.push_back({std::move(choice), std::nullopt, std::nullopt});
  for (Change& choice : findings.choices) add_prefix(choice.set, experiment.override_prefix);
  if (findings.choices.empty()) return findings;
  for (const std::size_t i : findings.pasted())
    note_later_stage(request, experiment, findings.choices[i].set, devices, planner, findings);
  return findings;
}

}  // namespace trainer
