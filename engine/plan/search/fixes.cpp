#include "engine/plan/search/fixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "engine/config/fields/model_numbers.h"
#include "engine/config/override_text.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/choice_space.h"
#include "engine/plan/search/fitting_cut.h"
#include "engine/plan/search/lighter_optimizer.h"
#include "engine/plan/search/minimal_change.h"
#include "engine/plan/search/model_cuts.h"
#include "engine/plan/search/model_difference.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/plan/search/technique_difference.h"
#include "engine/program/compile.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

constexpr std::int64_t mebibyte = 1024 * 1024;
/// Of FixSearch::cost_of_search: searches that take some 40 ms, and about a second.
constexpr std::int64_t most_short_search = 10'000, most_long_search = 250'000;

// Note [Search for fixes]
// ~~~~~~~~~~~~~~~~~~~~~~~
// First what keeps the result: each technique alone, and all of them where none is enough. Then the same samples in
// more parts, then what changes the result: a smaller batch, fewer bits, less optimizer state. All techniques and the
// fewest bits together, and the model last, only where fewer than three changes fit. Of a pipeline all stages are
// planned each time, and it may be cut at other layers or have more micro-batches. What is not enough alone is kept
// with the peak it reaches. What fits is offered without the settings that it can do without (Note [Minimal changes] in
// engine/plan/search/minimal_change.h).
//
// Somebody waits for the answer, so that what takes long is left to where it is worth it. A plan takes a few
// milliseconds, a search for what to compute again tens of them and soon many more (about the square of its nodes).
// Small graphs are searched. Elsewhere `checkpointing: sqrt`, which is a rule, stands for `auto`, and a search is only
// made where nothing else keeps the result and the rule comes near the capacity.
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
    cost_of_search_ = cost_of_search();
    const bool is_short = cost_of_search_ <= most_short_search;
    short_type_ = is_short ? CheckpointingConfig::Type::automatic : CheckpointingConfig::Type::sqrt;
  }

  Advice find() {
    try_evaluation_batch();
    try_same_bits();
    try_other_cut();
    try_micro_batches();
    try_batch();
    try_long_search();
    try_precision();
    try_optimizer();
    if (!has_enough()) try_everything();
    if (!has_enough()) try_model(experiment_);
    if (!has_enough()) try_smallest();
    try_limit();
    std::stable_sort(advice_.fixes.begin(), advice_.fixes.end(), is_advised_before);
    std::stable_sort(advice_.not_enough.begin(), advice_.not_enough.end(),
                     [&](const Change& a, const Change& b) { return a.peak_reserved < b.peak_reserved; });
    return std::move(advice_);
  }

 private:
  using Type = CheckpointingConfig::Type;

  bool fits(const Experiment& changed) const { return planner_.fits(changed, data_, capacity_); }

  bool has_enough() const { return advice_.fixes.size() >= 3; }

  /// 0: a batch of one does not fit, or it is the experiment's own.
  /// That can be, where none fits: a rule may refuse one sample.
  std::int64_t smallest_batch() const {
    return advice_.largest_batch.value ? 1 : advice_.largest_batch.next.value_or(1);
  }
  std::int64_t largest_batch() const { return advice_.largest_batch.value.value_or(0); }

  static Experiment with_batch(Experiment changed, std::int64_t batch_size) {
    changed.train.batch_size = batch_size;
    return changed;
  }

  /// With its optimizer and its model.
  TechniqueDifference difference_of(const Experiment& changed) const {
    Experiment of_techniques = changed;
    Experiment lighter = experiment_;
    const std::optional<LighterOptimizer> optimizer =
        is_lighter_optimizer(changed) ? lighten_optimizer(lighter) : std::nullopt;
    if (optimizer) of_techniques.memory.moments = experiment_.memory.moments;
    TechniqueDifference result = find_technique_difference(experiment_, of_techniques, data_);
    const auto add = [&](const std::vector<std::string>& words, const ChangePart& part) {
      result.set.insert(result.set.end(), words.begin(), words.end());
      result.parts.push_back(part);
      result.numbers = NumbersEffect::other;
    };
    if (optimizer) add(optimizer->set, optimizer->effect);
    if (const ModelDifference model = find_model_difference(experiment_, changed); !model.set.empty())
      add(model.set, model.part);
    return result;
  }

  bool is_lighter_optimizer(const Experiment& changed) const {
    const OptimizerConfig &before = experiment_.optimizer, &after = changed.optimizer;
    return before.type != after.type || before.momentum != after.momentum;
  }

  /// Plans `changed` and keeps it, with the fixes, reduced to what it needs, or with what is not enough.
  bool propose(const Experiment& changed) { return keep(changed, planner_.plan(changed, data_, capacity_)); }

  bool propose_if_fits(const Experiment& changed) {
    const Verdict verdict = planner_.plan(changed, data_, capacity_);
    return verdict.fits && keep(changed, verdict);
  }

  bool keep(const Experiment& changed, const Verdict& verdict) {
    TechniqueDifference change = difference_of(changed);
    if (!verdict.fits) return keep(changed, verdict, std::move(change), capacity_);
    const Experiment minimal =
        minimal_change(experiment_, changed, [&](const Experiment& fewer) { return fits(fewer); });
    TechniqueDifference reduced = difference_of(minimal);
    if (reduced.set == change.set) return keep(changed, verdict, std::move(change), capacity_);
    return keep(minimal, planner_.plan(minimal, data_, capacity_), std::move(reduced), capacity_);
  }

  /// The same for one setting, told in another way.
  bool propose(const Experiment& changed, TechniqueDifference change,
               std::optional<std::int64_t> capacity = std::nullopt) {
    const std::int64_t allowed = capacity.value_or(capacity_);
    return keep(changed, planner_.plan(changed, data_, allowed), std::move(change), allowed);
  }

  bool keep(const Experiment& changed, const Verdict& verdict, TechniqueDifference difference, std::int64_t capacity) {
    if (verdict.problem || difference.set.empty()) return false;
    Change change;
    change.capacity = capacity;
    change.experiment = changed;
    add_settled_batch(asked_, changed, difference.set);
    change.set = std::move(difference.set);
    change.parts = std::move(difference.parts);
    change.numbers = difference.numbers;
    change.fits = verdict.fits;
    change.peak_reserved = verdict.peak_reserved;
    change.step_seconds = verdict.time.seconds;
    change.samples_per_second = static_cast<double>(verdict.samples_per_step) / verdict.time.seconds;
    if (!as_is_.problem) {
      const double samples_per_second = static_cast<double>(as_is_.samples_per_step) / as_is_.time.seconds;
      change.relative_step_time = samples_per_second / change.samples_per_second;
    }
    std::vector<Change>& list = change.fits ? advice_.fixes : advice_.not_enough;
    const auto is_same = [&](const Change& kept) { return kept.set == change.set; };
    if (std::none_of(list.begin(), list.end(), is_same)) list.push_back(std::move(change));
    return verdict.fits;
  }

  static Experiment with_all(Experiment changed, const std::vector<Saver>& savers) {
    for (const Saver saver : savers) saver(changed);
    return changed;
  }

  static Experiment with_checkpointing(Experiment changed, Type type) {
    if (changed.train.checkpointing.type != Type::automatic)
      changed.train.checkpointing = {.type = type, .every = 0, .layers = {}};
    changed.memory.recompute_cheap = true;
    return changed;
  }

  /// All that holds less and keeps the result.
  Experiment lean(const Experiment& changed, Type type) const {
    return with_checkpointing(with_all(changed, savers_for(changed, data_)), type);
  }

  /// What a search for what to compute again costs: the square of the nodes of each of its graphs.
  std::int64_t cost_of_search() const {
    if (as_is_.problem) return 0;
    const auto num_nodes =
        static_cast<std::int64_t>(make_training_graph(experiment_, data_, planner_.device()).graph.nodes.size());
    const bool has_odd_batch = data_.num_train % batch_size_ != 0 && data_.num_train > batch_size_;
    return num_nodes * num_nodes * (has_odd_batch ? 2 : 1);
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
    const Experiment largest = with_size(low);
    propose(
        largest,
        {{override_of("train.eval_batch_size", largest)}, {Effect::largest_eval_batch}, NumbersEffect::same_rounding});
  }

  /// Single techniques, and where none is enough, as few of them as are.
  void try_same_bits() {
    std::vector<Saver> singles = savers_for(experiment_, data_);
    if (experiment_.memory.allocator == AllocatorKind::caching && !experiment_.memory.expandable_segments)
      singles.insert(singles.begin(), [](Experiment& changed) { changed.memory.expandable_segments = true; });
    bool one_fits = false;
    for (const Saver single : singles) one_fits = propose(with_all(experiment_, {single})) || one_fits;
    one_fits = propose(with_checkpointing(experiment_, short_type_)) || one_fits;
    if (!one_fits) try_lean(short_type_);
  }

  /// Checkpointing with as few savers as make it fit.
  bool try_lean(Type type) {
    const Experiment changed = lean(experiment_, type);
    return fits(changed) && propose(changed);
  }

  bool keeps_result() const {
    return std::any_of(advice_.fixes.begin(), advice_.fixes.end(), [](const Change& fix) { return fix.same_result(); });
  }

  /// The search that was put off.
  void try_long_search() {
    if (short_type_ == Type::automatic || cost_of_search_ > most_long_search || keeps_result()) return;
    // Of memory.allocator: auto what would need the least.
    Experiment least_by_rule = lean(experiment_, short_type_);
    if (least_by_rule.memory.allocator == AllocatorKind::automatic)
      least_by_rule = with_allocator(std::move(least_by_rule), AllocatorKind::planned);
    const Verdict rule = planner_.plan(least_by_rule, data_, capacity_);
    constexpr double most_saved_by_search = 0.25;
    const auto least = static_cast<std::int64_t>((1 - most_saved_by_search) * static_cast<double>(rule.peak_reserved));
    if (!rule.problem && least <= capacity_) try_lean(Type::automatic);
  }

  /// Of a pipeline: Note [Cuts that fit] in engine/plan/search/fitting_cut.h.
  void try_other_cut() {
    std::optional<std::vector<std::string>> cut = find_fitting_cut(planner_, experiment_, data_, capacity_);
    if (!cut) return;
    Experiment changed = experiment_;
    changed.parallel.cut = *std::move(cut);
    propose(changed, {{override_of("parallel.cut", changed)}, {Effect::other_cut}, NumbersEffect::same_rounding});
  }

  /// As many as are enough, or as every rank has samples for.
  void try_micro_batches() {
    if (experiment_.parallel.pipeline == 1) return;
    const std::int64_t own = num_micro_batches(experiment_.parallel);
    const std::int64_t most = std::min(batch_size_ / experiment_.parallel.data, most_ranks);
    if (most <= own) return;
    const auto with_number = [&](std::int64_t number) {
      Experiment changed = experiment_;
      changed.parallel.micro_batches = number;
      return changed;
    };
    std::int64_t failing = own, fitting = std::min(2 * own, most);
    bool are_enough = fits(with_number(fitting));
    while (!are_enough && fitting < most) {
      failing = fitting;
      fitting = std::min(2 * fitting, most);
      are_enough = fits(with_number(fitting));
    }
    while (are_enough && fitting - failing > 1) {
      const std::int64_t middle = failing + (fitting - failing) / 2;
      (fits(with_number(middle)) ? fitting : failing) = middle;
    }
    const Experiment changed = with_number(fitting);
    propose(changed, {{override_of("parallel.micro_batches", changed)},
                      {Effect::more_micro_batches},
                      depends_on_batch(experiment_) ? NumbersEffect::other : NumbersEffect::same_rounding});
  }

  void try_batch() {
    if (batch_size_ > 1) advice_.largest_batch = find_largest_batch(planner_, experiment_, data_, capacity_);
    const std::int64_t largest = largest_batch();
    if (largest > 0) {
      const Experiment changed = with_batch(experiment_, largest);
      propose(changed, {{override_of("train.batch_size", changed)}, {Effect::largest_batch}, NumbersEffect::other});
    } else if (batch_size_ > smallest_batch()) {
      const Experiment smallest = with_batch(experiment_, smallest_batch());
      const Verdict verdict = planner_.plan(smallest, data_, capacity_);
      advice_.one_sample_is_too_many = smallest_batch() == 1 && !verdict.problem && !verdict.fits;
      keep(smallest, verdict,
           {{override_of("train.batch_size", smallest)}, {Effect::smallest_batch}, NumbersEffect::other}, capacity_);
    }
    if (largest > 0)
      try_accumulation([&](const BatchSplit& split) { return with_split(experiment_, split); }, largest);
    else
      try_accumulation([&](const BatchSplit& split) { return lean(with_split(experiment_, split), short_type_); },
                       batch_size_);
  }

  /// The same samples an update in more, smaller micro-batches: the largest that fit, which may be larger than
  /// `largest`, up to which everything does.
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
    std::erase_if(splits, [&](const BatchSplit& split) { return split.batch_size >= batch_size_; });
    const std::int64_t parts = (batch_size_ + largest - 1) / largest;
    const BatchSplit uneven{(batch_size_ + parts - 1) / parts, experiment_.train.accumulation_steps * parts};
    const bool cuts_well = std::any_of(splits.begin(), splits.end(), [&](const BatchSplit& split) {
      return split.batch_size <= largest && split.batch_size * 3 >= uneven.batch_size;
    });
    if (uneven.batch_size >= batch_size_ || cuts_well) return splits;
    const auto is_smaller = [&](const BatchSplit& split) { return split.batch_size < uneven.batch_size; };
    splits.insert(std::find_if(splits.begin(), splits.end(), is_smaller), uneven);
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
    // What `fit` would find, too: fewer bits with what takes no time.
    Experiment half = experiment_;
    half.train.amp = half_type();
    if (half.train.amp == experiment_.train.amp) return;
    if (!fits(half)) propose_if_fits(with_all(half, savers_for(half, data_)));
  }

  Amp half_type() {
    if (half_type_) return *half_type_;
    half_type_ = experiment_.train.amp;
    if (half_type_ == Amp::off) {
      Experiment changed = experiment_;
      changed.train.amp = Amp::bf16;
      half_type_ = planner_.plan(changed, data_, capacity_).problem ? Amp::fp16 : Amp::bf16;
    }
    return *half_type_;
  }

  void try_optimizer() {
    if (const std::optional<Experiment> changed = with_lighter_optimizer(experiment_)) propose(*changed);
  }

  /// All that holds less and the fewest bits; where that is not enough for the batch, with a smaller one.
  void try_everything() {
    const Experiment variant = arithmetic_variants(experiment_, half_type()).back();
    if (propose_if_fits(savings_of(variant)) || propose_if_fits(lean(variant, short_type_)) || has_enough()) return;
    const Experiment saving = savings_of(variant);
    // One that fits, to a sixteenth of the batch near one that does not.
    std::int64_t low = largest_batch(), high = batch_size_;
    while (high - low > 1 + batch_size_ / 16) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(with_batch(saving, middle)) ? low : high) = middle;
    }
    if (low > largest_batch()) propose_if_fits(with_batch(saving, low));
    if (low == 0) propose_if_fits(with_batch(lean(variant, short_type_), smallest_batch()));
  }

  /// All that holds less and takes no search, not even one for places.
  Experiment savings_of(const Experiment& variant) const {
    Experiment saving = with_all(variant, savers_for(variant, data_));
    saving.memory.allocator = experiment_.memory.allocator;
    saving.memory.expandable_segments = experiment_.memory.expandable_segments;
    return saving;
  }

  static std::optional<Experiment> with_lighter_optimizer(Experiment changed) {
    if (!lighten_optimizer(changed)) return std::nullopt;
    return changed;
  }

  /// Lower parameters of the model, with what else of `base` each needs.
  void try_parameters(const Experiment& base) {
    const auto try_cut = [&](const Experiment& changed) {
      const FitAnswer answer = planner_.answer(changed, data_, capacity_);
      return answer == FitAnswer::fits           ? CutAnswer::fits
             : answer == FitAnswer::does_not_fit ? CutAnswer::does_not_fit
                                                 : CutAnswer::cannot_be;
    };
    for (const ParameterCut& cut : parameter_cuts(base, try_cut)) {
      Experiment before = experiment_;
      before.layers = cut.experiment.layers;
      const Experiment minimal =
          minimal_change(before, cut.experiment, [&](const Experiment& fewer) { return fits(fewer); });
      Experiment of_settings = minimal;
      of_settings.layers = experiment_.layers;
      TechniqueDifference difference = difference_of(of_settings);
      difference.set.push_back(cut.set);
      difference.parts.emplace_back(Effect::smaller_model);
      difference.numbers = NumbersEffect::other;
      propose(minimal, std::move(difference));
    }
  }

  void try_model(const Experiment& base) {
    if (!experiment_.stage.empty()) return;  // stages hand their parameters on
    try_parameters(base);
    if (has_enough()) return;
    const auto fits_cut = [&](const Experiment& changed) { return fits(changed); };
    if (const std::optional<Experiment> cut = even_cut(base, fits_cut)) propose(*cut);
    if (has_enough()) return;
    for (const Experiment& cut : single_cuts(base, fits_cut)) propose(cut);
  }

  /// Where single changes are not enough: the smallest batch and the lightest optimizer, and then the model.
  void try_smallest() {
    Experiment base = with_batch(experiment_, smallest_batch());
    const std::optional<Experiment> lighter = with_lighter_optimizer(base);
    if (lighter) base = *lighter;
    if (batch_size_ <= smallest_batch() && !lighter) return;  // the model alone was tried
    if (!propose(base) && !has_enough()) try_model(base);
  }

  /// Of a caching allocator, which needs less where it may place layouts; `fitting` is enough without. In MiB.
  std::int64_t least_limit_with_places(std::int64_t fitting) {
    std::int64_t failing = capacity_ / mebibyte;
    while (fitting - failing > 1) {
      const std::int64_t middle = failing + (fitting - failing) / 2;
      (planner_.fits(experiment_, data_, middle * mebibyte) ? fitting : failing) = middle;
    }
    return fitting;
  }

  void try_limit() {
    if (!experiment_.memory.limit || as_is_.problem) return;
    const bool is_known = !as_is_.fits && experiment_.train.checkpointing.type != Type::automatic;
    const Experiment unbounded = experiment_.memory.allocator == AllocatorKind::automatic
                                     ? with_allocator(experiment_, AllocatorKind::planned)
                                     : experiment_;
    const std::int64_t unbounded_peak =
        is_known ? as_is_.peak_reserved : planner_.plan(unbounded, data_, unlimited_capacity).peak_reserved;
    Experiment changed = experiment_;
    std::int64_t limit_mib = (unbounded_peak + mebibyte - 1) / mebibyte;
    if (experiment_.memory.allocator == AllocatorKind::caching && !experiment_.memory.expandable_segments)
      limit_mib = least_limit_with_places(limit_mib);
    if (limit_mib * mebibyte > device_capacity_) return;
    changed.memory.limit = limit_mib * mebibyte;
    propose(changed, {{fmt::format("memory.limit={}MiB", limit_mib)}, {Effect::higher_limit}, NumbersEffect::same_bits},
            changed.memory.limit);
  }

  Planner& planner_;
  const Experiment& asked_;
  const Experiment experiment_;  ///< as asked for, with a number for train.batch_size: auto
  const DataDescription& data_;
  std::int64_t capacity_, device_capacity_;
  std::int64_t batch_size_ = 0, eval_batch_size_ = 0;
  Verdict as_is_;
  std::int64_t cost_of_search_ = 0;
  Type short_type_ = Type::automatic;  ///< of checkpointing, where time is short
  std::optional<Amp> half_type_;
  Advice advice_;
};

}  // namespace

Advice find_advice(Planner& planner, const Experiment& experiment, const DataDescription& data, std::int64_t capacity,
                   std::int64_t device_capacity) {
  return FixSearch(planner, experiment, data, capacity, device_capacity).find();
}

}  // namespace trainer
