#include "engine/plan/fixes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/plan/choice_space.h"
#include "engine/plan/largest_value.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/model_cuts.h"
#include "engine/plan/technique_difference.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

constexpr std::int64_t mebibyte = 1024 * 1024;

// Note [Search for fixes]
// ~~~~~~~~~~~~~~~~~~~~~~~
// First what keeps the result: each technique alone, and all of them where none is enough. Then the same samples in
// more parts, then what changes the result: a smaller batch, fewer bits, less optimizer state. The model is cut last,
// and only where fewer than three changes fit, since each of its numbers takes many plans. What is not enough alone is
// kept with the peak it reaches.
class FixSearch {
 public:
  FixSearch(Planner& planner, const Experiment& experiment, const DataDescription& data, std::int64_t capacity,
            std::int64_t device_capacity)
      : planner_(planner),
        asked_(experiment),
        experiment_(with_settled_batch(planner, experiment, data, capacity)),
        data_(data),
        capacity_(capacity),
        device_capacity_(device_capacity) {
    const RunSchedule schedule(experiment_, data);
    batch_size_ = schedule.batch_size();
    eval_batch_size_ = schedule.eval_batch_size();
    as_is_ = planner.plan(experiment_, data, capacity);
  }

  Advice find() {
    try_evaluation_batch();
    try_same_bits();
    try_batch();
    try_precision();
    try_optimizer();
    if (!has_enough()) try_everything();
    if (!has_enough()) try_model(experiment_, {}, "");
    if (!has_enough()) try_smallest();
    try_limit();
    const auto order = [](const Change& change) { return std::make_tuple(change.numbers, change.set.size()); };
    std::stable_sort(advice_.fixes.begin(), advice_.fixes.end(),
                     [&](const Change& a, const Change& b) { return order(a) < order(b); });
    std::stable_sort(advice_.not_enough.begin(), advice_.not_enough.end(),
                     [&](const Change& a, const Change& b) { return a.peak_reserved < b.peak_reserved; });
    return std::move(advice_);
  }

 private:
  using Type = CheckpointingConfig::Type;

  bool fits(const Experiment& changed) const { return planner_.fits(changed, data_, capacity_); }

  bool has_enough() const { return advice_.fixes.size() >= 3; }

  Experiment with_batch(std::int64_t batch_size) const {
    Experiment changed = experiment_;
    changed.train.batch_size_rule = BatchSizeRule::given;
    changed.train.batch_size = batch_size;
    return changed;
  }

  /// Plans `changed` and keeps it, with the fixes or with what is not enough.
  bool propose(const Experiment& changed, std::vector<std::string> set, std::string what, Numbers numbers,
               std::optional<std::int64_t> capacity = std::nullopt) {
    Change change;
    change.capacity = capacity.value_or(capacity_);
    const Verdict verdict = planner_.plan(changed, data_, change.capacity);
    if (!verdict.problem.empty()) return false;
    change.experiment = changed;
    add_settled_batch(asked_, changed, set);
    change.set = std::move(set);
    change.what = std::move(what);
    change.numbers = numbers;
    change.fits = verdict.fits;
    change.peak_reserved = verdict.peak_reserved;
    change.step_seconds = verdict.time.seconds;
    change.samples_per_second = static_cast<double>(verdict.samples_per_step) / verdict.time.seconds;
    if (as_is_.problem.empty()) {
      const double samples_per_second = static_cast<double>(as_is_.samples_per_step) / as_is_.time.seconds;
      change.relative_step_time = samples_per_second / change.samples_per_second;
    }
    (change.fits ? advice_.fixes : advice_.not_enough).push_back(std::move(change));
    return verdict.fits;
  }

  /// The same for what find_technique_difference can tell.
  bool propose(const Experiment& changed) {
    TechniqueDifference difference = find_technique_difference(experiment_, changed, data_);
    if (difference.set.empty()) return false;
    return propose(changed, std::move(difference.set), std::move(difference.what), difference.numbers);
  }

  static Experiment with_all(Experiment changed, const std::vector<Saver>& savers) {
    for (const Saver saver : savers) saver(changed);
    return changed;
  }

  static Experiment with_auto_checkpointing(Experiment changed) {
    if (changed.train.checkpointing.type != Type::automatic)
      changed.train.checkpointing = {.type = Type::automatic, .every = 0, .layers = {}};
    changed.memory.recompute_cheap = true;
    return changed;
  }

  /// All that holds less and keeps the result.
  Experiment lean(const Experiment& changed) const {
    return with_auto_checkpointing(with_all(changed, savers_for(changed, data_)));
  }

  void try_evaluation_batch() {
    if (eval_batch_size_ <= 1) return;
    const auto with_size = [&](std::int64_t size) {
      Experiment changed = experiment_;
      changed.train.eval_batch_size = size;
      return changed;
    };
    if (!fits(with_size(1))) return;
    std::int64_t low = 1, high = eval_batch_size_;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(with_size(middle)) ? low : high) = middle;
    }
    propose(with_size(low), {fmt::format("train.eval_batch_size={}", low)},
            "evaluate in smaller batches: the largest that fits", Numbers::same_bits);
  }

  /// Single techniques, and where none is enough, as few of them as are.
  void try_same_bits() {
    std::vector<Saver> singles = savers_for(experiment_, data_);
    if (experiment_.memory.allocator == AllocatorKind::caching && !experiment_.memory.expandable_segments)
      singles.insert(singles.begin(), [](Experiment& changed) { changed.memory.expandable_segments = true; });
    bool one_fits = false;
    for (const Saver single : singles) one_fits = propose(with_all(experiment_, {single})) || one_fits;
    one_fits = propose(with_auto_checkpointing(experiment_)) || one_fits;
    if (one_fits || !fits(lean(experiment_))) return;
    std::vector<Saver> savers = savers_for(experiment_, data_);
    for (std::size_t i = savers.size(); i-- > 0;) {
      std::vector<Saver> fewer = savers;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits(with_auto_checkpointing(with_all(experiment_, fewer)))) savers = std::move(fewer);
    }
    propose(with_auto_checkpointing(with_all(experiment_, savers)));
  }

  void try_batch() {
    if (batch_size_ > 1)
      advice_.largest_batch_size = largest_fitting_batch_size(planner_, experiment_, data_, capacity_, batch_size_ - 1);
    const std::int64_t largest = advice_.largest_batch_size;
    if (largest > 0) {
      propose(with_batch(largest), {fmt::format("train.batch_size={}", largest)},
              "a smaller batch: the largest that fits", Numbers::other);
    } else if (batch_size_ > 1) {
      propose(with_batch(1), {"train.batch_size=1"}, "the smallest batch", Numbers::other);
    }
    try_accumulation([&](const BatchSplit& split) { return with_split(experiment_, split); }, largest);
    if (largest == 0) {
      try_accumulation([&](const BatchSplit& split) { return lean(with_split(experiment_, split)); }, batch_size_);
    }
  }

  /// The same samples an update in more, smaller micro-batches of at most `largest`.
  template <typename Apply>
  void try_accumulation(const Apply& apply, std::int64_t largest) {
    for (const BatchSplit& split : fix_splits(largest)) {
      const Experiment changed = apply(split);
      if (!fits(changed)) continue;
      propose(changed);
      return;
    }
  }

  /// Cuts that keep every update's samples; where there is none, or only into very many parts, one that nearly does.
  std::vector<BatchSplit> fix_splits(std::int64_t largest) const {
    std::vector<BatchSplit> splits = batch_splits(experiment_, data_);
    std::erase_if(
        splits, [&](const BatchSplit& split) { return split.batch_size >= batch_size_ || split.batch_size > largest; });
    if (largest == 0) return {};
    const std::int64_t parts = (batch_size_ + largest - 1) / largest;
    const BatchSplit uneven{(batch_size_ + parts - 1) / parts, experiment_.train.accumulation_steps * parts};
    if (uneven.batch_size < batch_size_ && (splits.empty() || splits.front().batch_size * 3 < uneven.batch_size))
      splits.insert(splits.begin(), uneven);
    return splits;
  }

  /// Fewer bits, where the device has them: each alone, then together.
  void try_precision() {
    std::vector<Experiment> variants = arithmetic_variants(experiment_, half_type());
    std::erase_if(variants, [&](const Experiment& variant) {
      const MemoryConfig &now = experiment_.memory, &then = variant.memory;
      return variant.train.amp == Amp::off ? experiment_.train.amp != Amp::off || now.moments == then.moments ||
                                                 then.moments == MomentStorage::f32
                                           : then.moments < now.moments || then.gradients < now.gradients ||
                                                 then.master_weights > now.master_weights;
    });
    // They change less the earlier they come; the last changes all that can be.
    bool one_fits = false;
    for (const Experiment& variant : variants) {
      TechniqueDifference difference = find_technique_difference(experiment_, variant, data_);
      const std::size_t num_changed = difference.set.size();
      const bool is_last = &variant == &variants.back();
      if (num_changed == 0 || (num_changed > 1 && !is_last) || (num_changed > 1 && one_fits)) continue;
      one_fits = propose(variant) || one_fits;
    }
  }

  Amp half_type() {
    if (experiment_.train.amp != Amp::off) return experiment_.train.amp;
    Experiment changed = experiment_;
    changed.train.amp = Amp::bf16;
    return planner_.plan(changed, data_, capacity_).problem.empty() ? Amp::bf16 : Amp::fp16;
  }

  /// The optimizer with less state than this one; false where it has none.
  static bool lighten_optimizer(Experiment& changed, std::vector<std::string>& set, std::string& what) {
    OptimizerConfig& optimizer = changed.optimizer;
    if (optimizer.type == OptimizerType::sgd && optimizer.momentum == 0) return false;
    if (optimizer.type == OptimizerType::sgd) {
      set.emplace_back("optimizer.momentum=0");
      if (optimizer.nesterov) set.emplace_back("optimizer.nesterov=false");
      what = "no momentum: no optimizer state";
    } else {
      // The whole section: keys that only Adam knows would be mistakes beside type sgd.
      set.push_back(
          fmt::format("optimizer={{type: sgd, lr: {}, weight_decay: {}}}", optimizer.lr, optimizer.weight_decay));
      if (changed.memory.moments == MomentStorage::eight_bit) set.emplace_back("memory.moments=f32");
      what = "SGD: no moments to keep (choose its lr anew)";
      optimizer.decay_norms_and_biases = false;
      changed.memory.moments = MomentStorage::f32;
    }
    optimizer.type = OptimizerType::sgd;
    optimizer.momentum = 0;
    optimizer.nesterov = false;
    return true;
  }

  void try_optimizer() {
    Experiment changed = experiment_;
    std::vector<std::string> set;
    std::string what;
    if (lighten_optimizer(changed, set, what)) propose(changed, std::move(set), std::move(what), Numbers::other);
  }

  /// All that holds less and the fewest bits, with the largest batch that fits so. Searches for places and for what to
  /// compute again take long, so that only the batch as it is and, where nothing else fits, the smallest are tried with
  /// them.
  void try_everything() {
    const Experiment variant = arithmetic_variants(experiment_, half_type()).back();
    Experiment saving = with_all(variant, savers_for(variant, data_));
    saving.memory.allocator = experiment_.memory.allocator;
    saving.memory.expandable_segments = experiment_.memory.expandable_segments;
    const std::int64_t largest = largest_fitting_batch_size(planner_, saving, data_, capacity_, batch_size_);
    if (largest == batch_size_) {
      propose(saving);
      return;
    }
    if (const Experiment changed = lean(variant); fits(changed)) propose(changed);
    Experiment changed = largest > 0 ? saving : lean(variant);
    changed.train.batch_size_rule = BatchSizeRule::given;
    changed.train.batch_size = std::max<std::int64_t>(largest, 1);
    if (fits(changed)) propose(changed);
  }

  void try_model(const Experiment& base, const std::vector<std::string>& base_set, const std::string& also) {
    const auto fits_cut = [&](const Experiment& changed) { return fits(changed); };
    for (const auto& find_cuts : {even_cut, single_cuts}) {
      for (ModelCut& cut : find_cuts(base, fits_cut)) {
        cut.set.insert(cut.set.begin(), base_set.begin(), base_set.end());
        propose(cut.experiment, std::move(cut.set), also + cut.what, Numbers::other);
      }
      if (has_enough()) return;
    }
  }

  /// Where single changes are not enough: the smallest batch and the lightest optimizer, and then the model.
  void try_smallest() {
    Experiment base = with_batch(1);
    std::vector<std::string> set;
    if (batch_size_ > 1) set.emplace_back("train.batch_size=1");
    std::string what;
    if (lighten_optimizer(base, set, what)) {
      what = batch_size_ > 1 ? "the smallest batch, and " + what : what;
      propose(base, set, what, Numbers::other);
    }
    if (!has_enough() && !set.empty()) try_model(base, set, batch_size_ > 1 ? "the smallest batch, and " : "");
  }

  void try_limit() {
    if (!experiment_.memory.limit || !as_is_.problem.empty()) return;
    const Verdict unbounded = planner_.plan(experiment_, data_, unlimited_capacity);
    Experiment changed = experiment_;
    // Segments are whole MiB.
    const std::int64_t limit_mib = (unbounded.peak_reserved + mebibyte - 1) / mebibyte;
    if (limit_mib * mebibyte > device_capacity_) return;
    changed.memory.limit = limit_mib * mebibyte;
    propose(changed, {fmt::format("memory.limit={}MiB", limit_mib)}, "a higher limit: the device has the memory",
            Numbers::same_bits, changed.memory.limit);
  }

  Planner& planner_;
  const Experiment& asked_;
  const Experiment experiment_;  ///< as asked for, with a number for train.batch_size: auto
  const DataDescription& data_;
  std::int64_t capacity_, device_capacity_;
  std::int64_t batch_size_ = 0, eval_batch_size_ = 0;
  Verdict as_is_;
  Advice advice_;
};

}  // namespace

Advice find_advice(Planner& planner, const Experiment& experiment, const DataDescription& data, std::int64_t capacity,
                   std::int64_t device_capacity) {
  return FixSearch(planner, experiment, data, capacity, device_capacity).find();
}

std::vector<Change> find_fixes(Planner& planner, const Experiment& experiment, const DataDescription& data,
                               std::int64_t capacity, std::int64_t device_capacity) {
  constexpr std::size_t few = 3;
  Advice advice = find_advice(planner, experiment, data, capacity, device_capacity);
  std::vector<Change> changes = std::move(advice.fixes);
  for (Change& change : advice.not_enough)
    if (changes.size() < few) changes.push_back(std::move(change));
  return changes;
}

std::int64_t largest_fitting_batch_size(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                        std::int64_t capacity, std::int64_t limit) {
  const WithValue with_batch = [&](std::int64_t batch_size) -> std::optional<Candidate> {
    Candidate candidate{experiment, data};
    candidate.experiment.train.batch_size_rule = BatchSizeRule::given;
    candidate.experiment.train.batch_size = batch_size;
    return candidate;
  };
  return find_largest_value(planner, with_batch, 1, limit, capacity).value.value_or(0);
}

}  // namespace trainer
