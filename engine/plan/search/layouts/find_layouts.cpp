#include "engine/plan/search/layouts/find_layouts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "engine/plan/search/layouts/layout_estimates.h"

namespace trainer {
namespace {

Experiment recomputing(Experiment experiment) {
  experiment.train.checkpointing = {.type = CheckpointingConfig::Type::sqrt, .every = 0, .layers = {}};
  return experiment;
}

/// A layout that may be planned.
struct Candidate {
  double least_seconds = 0;
  std::size_t layout = 0;  ///< in the list of all
  bool recomputes = false;

  /// What is planned sooner is the larger one.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return std::tie(a.least_seconds, a.layout) > std::tie(b.least_seconds, b.layout);
  }
};

class LayoutSearch {
 public:
  LayoutSearch(Planner& planner, const Experiment& experiment, const DataDescription& data,
               const LayoutCapacity& capacity, const LayoutSpace& space, const LoadLayout& load,
               const LayoutSearchOptions& options)
      : planner_(planner),
        data_(data),
        capacity_(capacity),
        load_(load),
        options_(options),
        layouts_(all_layouts(experiment, data, space)),
        estimates_(experiment, data, planner.device(), planner.rates()) {
    if (experiment.train.checkpointing.type == CheckpointingConfig::Type::off)
      recomputing_estimates_.emplace(recomputing(experiment), data, planner.device(), planner.rates());
  }

  LayoutFindings find() {
    findings_.num_layouts = static_cast<std::int64_t>(layouts_.size());
    for (std::size_t i = 0; i < layouts_.size(); ++i) estimate(i, false);
    while (!queue_.empty() && !is_done(queue_.top())) {
      const Candidate candidate = queue_.top();
      queue_.pop();
      if (!is_beaten(candidate)) plan(candidate);
    }
    for (auto& [way, found] : best_) findings_.found.push_back(std::move(found));
    std::stable_sort(findings_.found.begin(), findings_.found.end(), [](const FoundLayout& a, const FoundLayout& b) {
      return a.verdict.time.seconds < b.verdict.time.seconds;
    });
    if (findings_.found.size() > options_.num_wanted) findings_.found.resize(options_.num_wanted);
    std::stable_sort(findings_.refused.begin(), findings_.refused.end(),
                     [](const RefusedLayouts& a, const RefusedLayouts& b) { return a.num_layouts > b.num_layouts; });
    return std::move(findings_);
  }

 private:
  using Way = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  static Way way_of(const Layout& layout) { return {layout.data, layout.pipeline, layout.tensor}; }

  /// Queues it by what it takes at least, unless it holds too much.
  void estimate(std::size_t i, bool recomputes) {
    try {
      LayoutEstimates& estimates = recomputes ? *recomputing_estimates_ : estimates_;
      const std::int64_t num_compiled = estimates.num_compiled();
      const LayoutEstimate estimate = estimates.of(layouts_[i]);
      if (estimates.num_compiled() > num_compiled) planner_.heed_watch();
      const double lowered = 1 - most_too_high;
      if (lowered * static_cast<double>(estimate.held_bytes) > static_cast<double>(capacity_(layouts_[i])))
        return does_not_fit(i, recomputes);
      queue_.push({lowered * estimate.step_seconds, i, recomputes});
    } catch (const ConfigError& error) {
      refuse(layouts_[i], error);
    }
  }

  void does_not_fit(std::size_t i, bool recomputes) {
    if (!recomputes && recomputing_estimates_) return estimate(i, true);
    ++findings_.num_too_large;
  }

  /// Whether as many ways as are wanted are known to be no slower than the rest, or work ends it.
  bool is_done(const Candidate& next) {
    std::size_t num_faster = 0;
    for (const auto& [way, found] : best_)
      if (found.verdict.time.seconds <= next.least_seconds) ++num_faster;
    if (num_faster >= options_.num_wanted) return true;
    if (planner_.work() < (num_faster > 0 ? options_.most_work : options_.most_work_for_best)) return false;
    findings_.is_complete = false;
    findings_.knows_fastest = num_faster > 0;
    return true;
  }

  bool is_beaten(const Candidate& candidate) const {
    const auto best = best_.find(way_of(layouts_[candidate.layout]));
    return best != best_.end() && best->second.verdict.time.seconds <= candidate.least_seconds;
  }

  void plan(const Candidate& candidate) {
    const Layout& layout = layouts_[candidate.layout];
    if (is_refused(layout)) return;
    FoundLayout planned{.layout = layout, .recomputes = candidate.recomputes, .experiment = {}, .verdict = {}};
    try {
      planned.experiment = load_(layout);
    } catch (const ConfigError& error) {
      return refuse(layout, error);
    }
    if (candidate.recomputes) planned.experiment = recomputing(std::move(planned.experiment));
    planned.verdict = planner_.plan_what_fits(planned.experiment, data_, capacity_(layout));
    if (planned.verdict.problem) return refuse(layout, *planned.verdict.problem);
    ++findings_.num_planned;
    if (!planned.verdict.fits) return does_not_fit(candidate.layout, candidate.recomputes);
    const auto [best, is_first] = best_.try_emplace(way_of(layout), planned);
    if (!is_first && planned.verdict.time.seconds < best->second.verdict.time.seconds)
      best->second = std::move(planned);
  }

  /// What is refused with so many micro-batches is with more of them.
  using Kind = std::tuple<Way, PipelineOrder, Shard>;
  bool is_refused(const Layout& layout) {
    const auto refused = refused_from_.find({way_of(layout), layout.schedule, layout.shard});
    if (refused == refused_from_.end() || layout.micro_batches < refused->second.first) return false;
    ++findings_.refused[refused->second.second].num_layouts;
    return true;
  }

  void refuse(const Layout& layout, const ConfigError& error) {
    const std::string text = error.what();
    const std::string reason = text.substr(0, text.find('\n'));
    std::vector<RefusedLayouts>& all = findings_.refused;
    auto same = std::find_if(all.begin(), all.end(), [&](const RefusedLayouts& each) { return each.reason == reason; });
    if (same == all.end()) same = all.insert(same, {.reason = reason, .num_layouts = 0, .first = layout});
    ++same->num_layouts;
    auto& [micro_batches, number] =
        refused_from_.try_emplace({way_of(layout), layout.schedule, layout.shard}, layout.micro_batches, 0)
            .first->second;
    micro_batches = std::min(micro_batches, layout.micro_batches);
    number = static_cast<std::size_t>(same - all.begin());
  }

  Planner& planner_;
  const DataDescription& data_;
  const LayoutCapacity& capacity_;
  const LoadLayout& load_;
  const LayoutSearchOptions options_;
  const std::vector<Layout> layouts_;
  LayoutEstimates estimates_;
  std::optional<LayoutEstimates> recomputing_estimates_;  ///< where the experiment computes nothing again
  std::priority_queue<Candidate> queue_;
  std::map<Way, FoundLayout> best_;
  std::map<Kind, std::pair<std::int64_t, std::size_t>> refused_from_;  ///< micro-batches, and the place of the reason
  LayoutFindings findings_;
};

}  // namespace

LayoutFindings find_layouts(Planner& planner, const Experiment& experiment, const DataDescription& data,
                            const LayoutCapacity& capacity, const LayoutSpace& space, const LoadLayout& load,
                            const LayoutSearchOptions& options) {
  return LayoutSearch(planner, experiment, data, capacity, space, load, options).find();
}

}  // namespace trainer
