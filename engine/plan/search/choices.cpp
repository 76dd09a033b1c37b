#include "engine/plan/search/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "engine/config/fields/model_numbers.h"
#include "engine/plan/search/choice_space.h"
#include "engine/plan/search/minimal_change.h"
#include "engine/plan/search/technique_difference.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

/// What equals a choice is left out while choices are sought and again at the end: both together are same_speed.
const double same_speed_once = std::sqrt(same_speed);

// Note [Search for choices]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// Three things decide how long an update takes: its cut into micro-batches, the arithmetic, and what is computed again.
// For each arithmetic and level of recomputation the largest micro-batch that can be made to fit is sought, since a
// smaller one is never faster: weights are read and kernels started more often. What makes it fit without taking time
// (savers) is added last, and only what is needed. What is sure to be slower than a choice that keeps the numbers as
// well is not planned further: the time of an experiment is known without its fitting, and computing more again only
// adds to it.
class ChoiceSearch {
 public:
  ChoiceSearch(Planner& planner, const Experiment& experiment, const DataDescription& data, std::int64_t capacity,
               const ChoiceOptions& options)
      : planner_(planner),
        asked_(experiment),
        experiment_(with_settled_batch(planner, experiment, data, capacity)),
        data_(data),
        capacity_(capacity),
        options_(options) {
    own_split_ = {RunSchedule(experiment_, data).batch_size(), experiment_.train.accumulation_steps};
    const bool any_split = options.keep != ChoiceOptions::Keep::same_result || !depends_on_batch(experiment);
    splits_ = any_split ? batch_splits(experiment_, data) : std::vector<BatchSplit>{own_split_};
  }

  std::vector<Change> find() {
    const Verdict& as_is = plan(experiment_);
    base_seconds_ = !as_is.problem ? as_is.time.seconds : 0;
    if (as_is.fits) keep(experiment_);
    // With its own batch and arithmetic the numbers stay as they are, bit for bit.
    try_levels(experiment_, {own_split_});
    for (const Experiment& variant : variants()) try_levels(variant, splits_);
    return best();
  }

 private:
  std::vector<Experiment> variants() {
    if (options_.keep == ChoiceOptions::Keep::same_result || options_.while_running) return {experiment_};
    return arithmetic_variants(experiment_, half_type());
  }

  /// bf16 where the device has it.
  Amp half_type() {
    if (experiment_.train.amp != Amp::off) return experiment_.train.amp;
    Experiment changed = experiment_;
    changed.train.amp = Amp::bf16;
    return plan(changed).problem ? Amp::fp16 : Amp::bf16;
  }

  std::string key_of(const Experiment& changed) const {
    return fmt::format("{}", fmt::join(find_technique_difference(experiment_, changed, data_).set, " "));
  }

  const Verdict& plan(const Experiment& changed) {
    const auto [entry, is_new] = verdicts_.try_emplace(key_of(changed));
    if (is_new) entry->second = planner_.plan(changed, data_, capacity_);
    return entry->second;
  }

  bool fits(const Experiment& changed) {
    const std::string key = key_of(changed);
    if (const auto known = verdicts_.find(key); known != verdicts_.end()) return known->second.fits;
    const auto [entry, is_new] = fits_.try_emplace(key);
    if (is_new) entry->second = planner_.fits(changed, data_, capacity_);
    return entry->second;
  }

  void try_levels(const Experiment& variant, const std::vector<BatchSplit>& splits) {
    using Type = CheckpointingConfig::Type;
    std::size_t num_too_large = splits.size();  // for what keeps most but for cheap ops
    std::optional<Experiment> kept_level;
    const std::vector<Experiment> levels = recompute_levels(variant);
    for (const Experiment& level : levels) {
      if (level.train.checkpointing.type == Type::automatic) continue;
      const std::size_t first = first_that_fits(level, splits);
      if (level.train.checkpointing.type != Type::off || !level.memory.recompute_cheap) continue;
      num_too_large = first;
      kept_level = level;
    }
    for (const Experiment& level : levels) {
      if (level.train.checkpointing.type != Type::automatic) continue;
      for (std::size_t i = 0; i < num_too_large; ++i) {
        if (kept_level && is_beaten(with_split(*kept_level, splits[i]))) break;
        keep_squeezed(with_split(level, splits[i]));
      }
    }
  }

  /// Keeps the largest micro-batch that fits; where in `splits` it stands, their number where none fits.
  std::size_t first_that_fits(const Experiment& level, const std::vector<BatchSplit>& splits) {
    const auto can_fit = [&](std::size_t i) { return fits_squeezed(with_split(level, splits[i])); };
    // A whole update at once may hold less than one in parts, whose gradients wait.
    std::size_t first = 0;
    if (!can_fit(0)) {
      if (splits.size() == 1 || !can_fit(splits.size() - 1)) return splits.size();
      std::size_t too_large = 0;
      first = splits.size() - 1;
      while (first - too_large > 1) {
        const std::size_t middle = too_large + (first - too_large) / 2;
        (can_fit(middle) ? first : too_large) = middle;
      }
    }
    keep_squeezed(with_split(level, splits[first]));
    return first;
  }

  /// Whether a choice is as fast and keeps the numbers as well.
  bool is_beaten(const Experiment& changed) {
    const Verdict& verdict = plan(changed);
    if (verdict.problem) return true;
    const NumbersEffect numbers = find_technique_difference(experiment_, changed, data_).numbers;
    return std::any_of(choices_.begin(), choices_.end(), [&](const Change& choice) {
      return choice.numbers <= numbers && choice.step_seconds <= same_speed_once * verdict.time.seconds;
    });
  }

  static Experiment with_all(Experiment changed, const std::vector<Saver>& savers) {
    for (const Saver saver : savers) saver(changed);
    return changed;
  }

  bool fits_squeezed(const Experiment& changed) {
    return fits(changed) || fits(with_all(changed, savers_for(changed, data_))) ||
           fits(with_all(changed, expandable_savers_for(changed, data_)));
  }

  /// Keeps it with as few savers as make it fit, unless it is beaten.
  void keep_squeezed(const Experiment& changed) {
    if (is_beaten(changed)) return;
    if (fits(changed)) return keep(changed);
    std::vector<Saver> savers = savers_for(changed, data_);
    for (const Saver saver : savers)
      if (const Experiment saved = with_all(changed, {saver}); fits(saved)) return keep(saved);
    if (!fits(with_all(changed, savers))) savers = expandable_savers_for(changed, data_);
    const Experiment saved = with_all(changed, savers);
    if (fits(saved)) keep(minimal_change(changed, saved, [&](const Experiment& fewer) { return fits(fewer); }));
  }

  void keep(const Experiment& changed) {
    const Verdict& verdict = plan(changed);
    if (!verdict.fits) return;
    TechniqueDifference difference = find_technique_difference(experiment_, changed, data_);
    add_settled_batch(asked_, changed, difference.set);
    const auto is_same = [&](const Change& choice) { return choice.set == difference.set; };
    if (std::any_of(choices_.begin(), choices_.end(), is_same)) return;
    Change choice;
    choice.experiment = changed;
    choice.set = std::move(difference.set);
    choice.parts = std::move(difference.parts);
    choice.numbers = difference.numbers;
    choice.peak_reserved = verdict.peak_reserved;
    choice.capacity = capacity_;
    choice.step_seconds = verdict.time.seconds;
    choice.samples_per_second = static_cast<double>(verdict.samples_per_step) / verdict.time.seconds;
    choice.relative_step_time = base_seconds_ > 0 ? verdict.time.seconds / base_seconds_ : 1;
    choices_.push_back(std::move(choice));
  }

  /// Without what it needs neither to fit nor to be as fast.
  Experiment without_needless(const Experiment& changed) {
    const double seconds = plan(changed).time.seconds;
    return minimal_change(experiment_, changed, [&](const Experiment& fewer) {
      if (!fits(fewer)) return false;
      const Verdict& verdict = plan(fewer);
      return !verdict.problem && verdict.time.seconds <= seconds;
    });
  }

  /// With what ranks exchange beside what they compute so that the least is waited for, by no more settings than make
  /// it faster than the cost model can be wrong.
  Experiment with_exchanges(const Experiment& changed) {
    if (options_.while_running || plan(changed).time.communication <= 0) return changed;
    Experiment best = changed;
    for (bool improves = true; std::exchange(improves, false);)
      for (const Experiment& other : exchange_variants(best)) {
        const Verdict& verdict = plan(other);
        if (!verdict.fits || verdict.time.seconds >= plan(best).time.seconds) continue;
        best = other;
        improves = true;
      }
    const double most_seconds = same_speed_once * plan(best).time.seconds;
    return minimal_change(changed, best, [&](const Experiment& fewer) {
      const Verdict& verdict = plan(fewer);
      return verdict.fits && verdict.time.seconds <= most_seconds;
    });
  }

  /// The best, each without what it needs not: Note [Minimal changes] in engine/plan/search/minimal_change.h.
  std::vector<Change> best() {
    for (const Change& choice : without_equalled()) keep(without_needless(choice.experiment));
    for (const Change& choice : without_equalled()) keep(with_exchanges(choice.experiment));
    std::vector<Change> choices = without_equalled();
    std::stable_sort(choices.begin(), choices.end(),
                     [](const Change& a, const Change& b) { return a.step_seconds < b.step_seconds; });
    return choices;
  }

  /// Without those that another equals in speed, numbers and simplicity.
  std::vector<Change> without_equalled() {
    std::stable_sort(choices_.begin(), choices_.end(), [](const Change& a, const Change& b) {
      return std::make_tuple(a.numbers, a.set.size(), a.step_seconds) <
             std::make_tuple(b.numbers, b.set.size(), b.step_seconds);
    });
    std::vector<Change> kept;
    for (const Change& choice : choices_) {
      const bool is_equalled = std::any_of(kept.begin(), kept.end(), [&](const Change& other) {
        return other.numbers <= choice.numbers && other.set.size() <= choice.set.size() &&
               other.step_seconds <= same_speed_once * choice.step_seconds;
      });
      if (!is_equalled) kept.push_back(choice);
    }
    return kept;
  }

  Planner& planner_;
  const Experiment& asked_;
  const Experiment experiment_;  ///< as asked for, with a number for train.batch_size: auto
  const DataDescription& data_;
  std::int64_t capacity_;
  const ChoiceOptions& options_;
  BatchSplit own_split_;
  std::vector<BatchSplit> splits_;
  double base_seconds_ = 0;  ///< of a step as it is; 0: it cannot be planned
  std::map<std::string, Verdict> verdicts_;
  std::map<std::string, bool> fits_;
  std::vector<Change> choices_;
};

}  // namespace

std::vector<Change> find_choices(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                 std::int64_t capacity, const ChoiceOptions& options) {
  return ChoiceSearch(planner, experiment, data, capacity, options).find();
}

}  // namespace trainer
