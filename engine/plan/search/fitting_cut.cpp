#include "engine/plan/search/fitting_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "engine/config/override_text.h"
#include "engine/errors.h"
#include "engine/program/compile.h"
#include "engine/program/pipeline/stage_cut.h"

namespace trainer {
namespace {

/// Whether parallel.cut is searched for, and not only by time.
bool has_cuts_to_choose(const Experiment& experiment) {
  return experiment.parallel.pipeline > 1 && chunks_of_rank(experiment.parallel) == 1 &&
         !experiment.train.batch_size.is_automatic();
}

class CutSearch {
 public:
  CutSearch(Planner& planner, const Experiment& experiment, const DataDescription& data, std::int64_t capacity)
      : planner_(planner),
        experiment_(experiment),
        data_(data),
        capacity_(capacity),
        num_stages_(static_cast<std::size_t>(experiment.parallel.pipeline)) {
    const Graph forward = make_graph_to_cut(experiment, data);
    runs_ = layer_runs_with_names(forward);
    for (const LayerRun& run : runs_) names_.push_back(forward.layers[run.layer].path);
  }

  std::optional<std::vector<std::string>> find() {
    if (most_parts() <= most_planned) return find_among_all();
    while (const std::optional<Cut> cut = cut_by_time(runs_, num_stages_, refused_)) {
      bool fits = true;
      for (std::size_t stage = 0; stage < num_stages_; ++stage) {
        if (is_known_to_fit(*cut, stage)) continue;
        if (fits_stage(*cut, stage)) continue;
        fits = false;
        refuse(*cut, stage);
      }
      if (fits && is_proven(*cut)) return names_of(*cut);
      if (num_planned_ > most_planned) return std::nullopt;
    }
    return find_among_all();
  }

 private:
  using Cut = std::vector<std::size_t>;
  using Part = std::tuple<std::size_t, std::size_t, std::size_t>;  ///< a stage, its first run and that behind it

  /// Stages of all cuts: each begins and ends somewhere, but for the first and the last.
  std::int64_t most_parts() const {
    const auto num_runs = static_cast<std::int64_t>(runs_.size()), inner = static_cast<std::int64_t>(num_stages_) - 2;
    return 2 * num_runs + inner * num_runs * num_runs / 2;
  }

  /// Of so few cuts that all can be looked at.
  std::optional<std::vector<std::string>> find_among_all() {
    std::vector<std::pair<double, Cut>> cuts;
    for (Cut cut = first_cut(); !cut.empty(); cut = next_cut(std::move(cut))) {
      if (cuts.size() == most_looked_at) return std::nullopt;
      cuts.emplace_back(slowest_of(cut), cut);
    }
    std::sort(cuts.begin(), cuts.end());
    for (const auto& [seconds, cut] : cuts) {
      bool may_fit = true;
      for (std::size_t stage = 0; stage < num_stages_ && may_fit; ++stage)
        may_fit = is_known_to_fit(cut, stage) || (!too_large_.contains(part_of(cut, stage)) && fits_stage(cut, stage));
      if (may_fit && is_proven(cut)) return names_of(cut);
      if (num_planned_ > most_planned) break;
    }
    return std::nullopt;
  }

  Cut first_cut() const {
    Cut cut;
    for (std::size_t stage = 1; stage < num_stages_ && num_stages_ <= runs_.size(); ++stage) cut.push_back(stage);
    return cut;
  }
  /// Empty behind the last.
  Cut next_cut(Cut cut) const {
    for (std::size_t i = cut.size(); i-- > 0;) {
      if (cut[i] + (cut.size() - i) >= runs_.size()) continue;
      ++cut[i];
      for (std::size_t later = i + 1; later < cut.size(); ++later) cut[later] = cut[later - 1] + 1;
      return cut;
    }
    return {};
  }
  double slowest_of(const Cut& cut) const {
    double slowest = 0;
    for (std::size_t stage = 0; stage < num_stages_; ++stage) {
      double seconds = 0;
      for (std::size_t run = begin_of(cut, stage); run < end_of(cut, stage); ++run) seconds += runs_[run].time;
      slowest = std::max(slowest, seconds);
    }
    return slowest;
  }

  /// Somebody waits: plans of stages that take seconds together.
  static constexpr std::int64_t most_planned = 400;
  static constexpr std::size_t most_looked_at = 5'000;

  std::size_t begin_of(const Cut& cut, std::size_t stage) const { return stage == 0 ? 0 : cut[stage - 1]; }
  std::size_t end_of(const Cut& cut, std::size_t stage) const {
    return stage + 1 == num_stages_ ? runs_.size() : cut[stage];
  }
  Part part_of(const Cut& cut, std::size_t stage) const { return {stage, begin_of(cut, stage), end_of(cut, stage)}; }

  std::vector<std::string> names_of(const Cut& cut) const {
    std::vector<std::string> names;
    for (const std::size_t run : cut) names.push_back(names_[run]);
    return names;
  }

  bool fits_stage(const Cut& cut, std::size_t stage) {
    ++num_planned_;
    Experiment changed = experiment_;
    changed.parallel.cut = names_of(cut);
    const bool fits =
        planner_.answer_of_stage(changed, static_cast<std::int64_t>(stage), data_, capacity_) == FitAnswer::fits;
    (fits ? fitting_ : too_large_).insert(part_of(cut, stage));
    return fits;
  }

  /// By its plan in this or another cut, which for a moment count as equal.
  bool is_known_to_fit(const Cut& cut, std::size_t stage) const { return fitting_.contains(part_of(cut, stage)); }

  bool is_proven(const Cut& cut) {
    for (std::size_t stage = 0; stage < num_stages_; ++stage) {
      if (fits_stage(cut, stage)) continue;
      fitting_.erase(part_of(cut, stage));
      refuse(cut, stage);
      return false;
    }
    return true;
  }

  void refuse(const Cut& cut, std::size_t stage) {
    const std::size_t begin = begin_of(cut, stage), end = end_of(cut, stage);
    if (stage + 1 < num_stages_) refused_.push_back({stage, begin, first_end_that_fails(cut, stage)});
    if (stage > 0) refused_.push_back({stage, last_begin_that_fails(cut, stage), end});
  }

  std::size_t first_end_that_fails(Cut cut, std::size_t stage) {
    std::size_t fitting = begin_of(cut, stage), failing = end_of(cut, stage);
    while (failing - fitting > 1) {
      cut[stage] = fitting + (failing - fitting) / 2;
      (fits_stage(cut, stage) ? fitting : failing) = cut[stage];
    }
    return failing;
  }

  std::size_t last_begin_that_fails(Cut cut, std::size_t stage) {
    std::size_t failing = begin_of(cut, stage), fitting = end_of(cut, stage);
    while (fitting - failing > 1) {
      cut[stage - 1] = failing + (fitting - failing) / 2;
      (fits_stage(cut, stage) ? fitting : failing) = cut[stage - 1];
    }
    return failing;
  }

  Planner& planner_;
  const Experiment& experiment_;
  const DataDescription& data_;
  const std::int64_t capacity_;
  const std::size_t num_stages_;
  std::vector<LayerRun> runs_;
  std::vector<std::string> names_;  ///< of the layers at which these begin
  std::vector<RefusedChunk> refused_;
  std::set<Part> fitting_, too_large_;
  std::int64_t num_planned_ = 0;
};

}  // namespace

std::optional<std::vector<std::string>> find_fitting_cut(Planner& planner, const Experiment& experiment,
                                                         const DataDescription& data, std::int64_t capacity) {
  if (!has_cuts_to_choose(experiment)) return std::nullopt;
  return CutSearch(planner, experiment, data, capacity).find();
}

Experiment with_settled_cut(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                            std::int64_t capacity) {
  Experiment settled = experiment;
  if (!experiment.parallel.cut.empty() || !has_cuts_to_choose(experiment)) return settled;
  const MachineRates rates = assumed_cpu_rates(1);  // nobody asks for times
  Planner planner(device, rates);
  for (std::int64_t stage = 0; stage < experiment.parallel.pipeline; ++stage) {
    const FitAnswer answer = planner.answer_of_stage(experiment, stage, data, capacity);
    if (answer == FitAnswer::cannot_be) return settled;
    if (answer == FitAnswer::fits) continue;
    if (auto cut = find_fitting_cut(planner, experiment, data, capacity)) settled.parallel.cut = *std::move(cut);
    return settled;
  }
  return settled;
}

std::string settled_cut_text(const Experiment& asked, const Experiment& settled) {
  if (!asked.parallel.cut.empty() || settled.parallel.cut.empty()) return "";
  return fmt::format(
      "parallel.cut: auto stands for {} here: a stage of the fastest of all cuts does not fit, and of those that fit "
      "this one's slowest stage is the fastest",
      override_of("parallel.cut", settled));
}

}  // namespace trainer
