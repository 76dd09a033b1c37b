#include "engine/findings/fit_over_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/config/override_text.h"
#include "engine/errors.h"
#include "engine/findings/fit_search.h"
#include "engine/plan/search/compiled_experiment.h"

namespace trainer {
namespace {

std::optional<double> efficiency_of(const Change& choice, FitSearch& search) {
  if (search.num_ranks() == 1) return 1;
  if (!search.knows_links()) return std::nullopt;
  Experiment alone = choice.experiment;
  alone.parallel.data = 1;
  alone.parallel.micro_batches = num_micro_batches(alone.parallel);
  alone.parallel.pipeline = 1;
  alone.parallel.shard = Shard::none;
  alone.memory.kept = nullptr;
  alone.kept_from = nullptr;
  const Verdict verdict = search.planner.plan(alone, search.data, unlimited_capacity);
  if (verdict.problem) return std::nullopt;
  return verdict.time.seconds / (static_cast<double>(search.num_ranks()) * choice.step_seconds);
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

/// Whether a batch norm that trains goes by a rank's part of a batch.
bool has_norms_of_parts(const Change& choice, const FitSearch& search) {
  const CompiledExperiment compiled =
      compile_experiment(choice.experiment, search.data, *search.target.device, search.capacity());
  const std::vector<OpCall>& calls = compiled.program.calls;
  return std::any_of(calls.begin(), calls.end(),
                     [](const OpCall& call) { return call.op.kind == OpKind::batchnorm2d; });
}

/// `search_of`: that of a number of ranks.
template <typename SearchOf>
void note_norms(const SearchOf& search_of, FitFindings& findings) {
  // Those that are told to paste, or else what more ranks would be.
  std::vector<const FitChoice*> proposed;
  for (const std::size_t i : findings.pasted())
    if (findings.choices[i].num_ranks() > 1) proposed.push_back(&findings.choices[i]);
  for (const FitChoice& choice : findings.choices)
    if (proposed.empty() && choice.num_ranks() > 1) proposed.push_back(&choice);
  if (proposed.empty()) return;
  const ParallelConfig& parallel = proposed.front()->experiment.parallel;
  if (parallel.deterministic || !has_norms_of_parts(*proposed.front(), search_of(proposed.front()->num_ranks())))
    return;
  const bool can_be_shared = std::all_of(proposed.begin(), proposed.end(), [&](const FitChoice* choice) {
    FitSearch& search = search_of(choice->num_ranks());
    Experiment shared = choice->experiment;
    shared.parallel.sync_batchnorm = true;
    return search.planner.fits(shared, search.data, search.capacity());
  });
  findings.notes.push_back(
      fmt::format("Batch norms go by each rank's part of a batch, so other numbers of ranks have another result{}.",
                  can_be_shared ? "; with parallel.sync_batchnorm=true they go by the whole batch" : ""));
}

}  // namespace

FitFindings find_fit_over_ranks(const FitRequest& request, const DeviceSource& devices,
                                const RatesProblemSink& on_rates_problem) {
  std::vector<std::unique_ptr<FitSearch>> searches;
  FitSearch& own = *searches.emplace_back(std::make_unique<FitSearch>(request, request.overrides, devices));
  on_rates_problem(own.target.rates_problem);
  FitFindings findings = begin_findings(request, own);
  const Verdict as_is = own.planner.plan(own.experiment, own.data, own.capacity());
  if (!as_is.problem) note_as_is(own, as_is, findings);
  double base_seconds = as_is.problem ? 0 : as_is.time.seconds;
  std::optional<ConfigError> first_problem;
  // Of so many ranks, those that share a batch.
  const auto num_data = [&](std::int64_t num_ranks) {
    const ParallelConfig& parallel = own.experiment.parallel;
    const std::int64_t of_each = parallel.pipeline * parallel.tensor;
    if (num_ranks % of_each != 0)
      throw ConfigError(fmt::format("parallel.pipeline and tensor take a multiple of {} ranks", of_each));
    return num_ranks / of_each;
  };
  const auto search_with = [&](std::int64_t num_ranks) -> FitSearch& {
    if (num_ranks == own.num_ranks()) return own;
    std::vector<std::string> overrides = request.overrides;
    std::erase_if(overrides, [](const std::string& each) { return each.starts_with("parallel.data="); });
    overrides.push_back(fmt::format("parallel.data={}", num_data(num_ranks)));
    return *searches.emplace_back(std::make_unique<FitSearch>(request, overrides, devices, &own));
  };
  const auto search_one = [&](SearchedRanks& searched) {
    FitSearch& search = search_with(searched.num_ranks);
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
      if (!is_own) choice.set.insert(choice.set.begin(), fmt::format("parallel.data={}", num_data(searched.num_ranks)));
      choice.numbers = std::max(choice.numbers, effect);
      choice.relative_step_time = choice.step_seconds / base_seconds;
      const std::optional<double> efficiency = efficiency_of(choice, search);
      findings.choices.push_back({std::move(choice), efficiency, std::nullopt});
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
  const auto search_of = [&](std::int64_t num_ranks) -> FitSearch& {
    return **std::find_if(searches.begin(), searches.end(),
                          [&](const auto& search) { return search->num_ranks() == num_ranks; });
  };
  note_norms(search_of, findings);
  for (const std::size_t i : findings.pasted()) {
    const FitChoice& choice = findings.choices[i];
    FitSearch& search = search_of(choice.num_ranks());
    note_later_stage(request, search.experiment, choice.set, devices, search.planner, findings);
  }
  return findings;
}

}  // namespace trainer
