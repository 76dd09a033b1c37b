#include "engine/plan/fixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "engine/plan/memory_plan.h"
#include "engine/plan/model_numbers.h"
#include "engine/plan/technique_fixes.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

constexpr std::int64_t mebibyte = 1024 * 1024;

/// The largest value in [1, limit] for which `fits` holds, if it holds for all smaller ones; 0 where for none.
std::int64_t largest_that(std::int64_t limit, const std::function<bool(std::int64_t)>& fits) {
  std::int64_t low = 0;
  std::int64_t high = limit + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

class FixSearch {
 public:
  FixSearch(Planner& planner, const Experiment& experiment, const DataDescription& data, std::int64_t capacity,
            std::int64_t device_capacity)
      : planner_(planner),
        experiment_(experiment),
        data_(data),
        capacity_(capacity),
        device_capacity_(device_capacity) {
    const RunSchedule schedule(experiment, data);
    batch_size_ = schedule.batch_size();
    accumulation_steps_ = schedule.step(1).num_micro_batches;
    eval_batch_size_ = schedule.eval_batch_size();
    base_seconds_ = planner.plan(experiment, data, capacity).time.seconds;
  }

  std::int64_t largest_batch(std::int64_t limit) const {
    return largest_that(limit, [&](std::int64_t batch_size) { return fits(with_batch(batch_size)); });
  }

  std::vector<Change> find() {
    try_evaluation_batch();
    try_batch();
    try_optimizer();
    try_workspace();
    try_expandable_segments();
    try_techniques();
    try_model(experiment_, {}, "");
    try_limit();
    try_combinations();
    std::stable_sort(fixes_.begin(), fixes_.end(), [](const Change& a, const Change& b) {
      return a.fits != b.fits ? a.fits : a.same_result() > b.same_result();
    });
    drop_failures_beyond_three();
    return std::move(fixes_);
  }

 private:
  bool fits(const Experiment& changed) const { return planner_.fits(changed, data_, capacity_); }

  Experiment with_batch(std::int64_t batch_size) const {
    Experiment changed = experiment_;
    changed.train.batch_size_rule = BatchSizeRule::given;
    changed.train.batch_size = batch_size;
    return changed;
  }

  /// Plans `changed` and keeps it as a fix, also where it does not fit.
  bool propose(const Experiment& changed, std::vector<std::string> set, std::string what, Numbers numbers,
               std::optional<std::int64_t> capacity = std::nullopt) {
    Change fix;
    fix.capacity = capacity.value_or(capacity_);
    const Verdict verdict = planner_.plan(changed, data_, fix.capacity);
    if (!verdict.problem.empty()) return false;
    fix.experiment = changed;
    fix.set = std::move(set);
    fix.what = std::move(what);
    fix.numbers = numbers;
    fix.fits = verdict.fits;
    fix.peak_reserved = verdict.peak_reserved;
    fix.step_seconds = verdict.time.seconds;
    fix.samples_per_second = static_cast<double>(verdict.samples_per_step) / verdict.time.seconds;
    fix.relative_step_time = base_seconds_ > 0 ? verdict.time.seconds / base_seconds_ : 1;
    fixes_.push_back(std::move(fix));
    return fixes_.back().fits;
  }

  void try_evaluation_batch() {
    if (eval_batch_size_ <= 1) return;
    auto changed_to = [&](std::int64_t size) {
      Experiment changed = experiment_;
      changed.train.eval_batch_size = size;
      return changed;
    };
    if (!fits(changed_to(1))) return;
    const std::int64_t largest =
        largest_that(eval_batch_size_ - 1, [&](std::int64_t size) { return fits(changed_to(size)); });
    propose(changed_to(largest), {fmt::format("train.eval_batch_size={}", largest)},
            "evaluate in smaller batches: the largest that fits", Numbers::same_bits);
  }

  void try_batch() {
    largest_batch_ = batch_size_ > 1 ? largest_batch(batch_size_ - 1) : 0;
    if (largest_batch_ == 0) {
      if (batch_size_ > 1)
        propose(with_batch(1), {"train.batch_size=1"}, "the smallest batch: not enough by itself", Numbers::other);
      return;
    }
    propose(with_batch(largest_batch_), {fmt::format("train.batch_size={}", largest_batch_)},
            "a smaller batch: the largest that fits", Numbers::other);
    try_accumulation();
  }

  /// Whether each update sees the same samples as before; drop_last may drop others.
  bool keeps_samples(const Experiment& changed) const {
    const RunSchedule before(experiment_, data_);
    const RunSchedule after(changed, data_);
    if (before.steps_per_epoch() != after.steps_per_epoch()) return false;
    const std::int64_t last = before.steps_per_epoch();
    return before.step(last).num_samples == after.step(last).num_samples;
  }

  /// The same samples an update in more, smaller micro-batches; an even split where one fits.
  void try_accumulation() {
    const std::int64_t fewest = (batch_size_ + largest_batch_ - 1) / largest_batch_;
    for (std::int64_t parts = fewest; parts <= batch_size_; ++parts) {
      if (batch_size_ % parts != 0) continue;
      Experiment changed = with_batch(batch_size_ / parts);
      changed.train.accumulation_steps = accumulation_steps_ * parts;
      if (!fits(changed)) continue;
      propose(
          changed,
          {fmt::format("train.batch_size={}", changed.train.batch_size),
           fmt::format("train.accumulation_steps={}", changed.train.accumulation_steps)},
          fmt::format("accumulation: still {} samples an update", batch_size_ * accumulation_steps_),
          keeps_samples(changed) && !depends_on_batch(experiment_.layers) ? Numbers::same_rounding : Numbers::other);
      return;
    }
  }

  /// The optimizer with less state than this one; false where it has none.
  bool lighten_optimizer(Experiment& changed, std::vector<std::string>& set, std::string& what) const {
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
      what = "SGD: no moments to keep (choose its lr anew)";
      optimizer.decay_norms_and_biases = false;
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

  /// Kernels with less scratch; where all of them need it, the plan does not change and nothing is offered.
  void try_workspace() {
    if (experiment_.memory.workspace_limit == 0) return;
    Experiment changed = experiment_;
    changed.memory.workspace_limit = 0;
    if (fits(changed))
      propose(changed, {"memory.workspace_limit=0"}, "kernels that need the least scratch; they can be slower",
              Numbers::same_bits);
  }

  /// Segments that grow in place reserve less beside what is allocated; nothing that is computed changes.
  void try_expandable_segments() {
    if (experiment_.memory.expandable_segments || experiment_.memory.allocator != AllocatorKind::caching) return;
    Experiment changed = experiment_;
    changed.memory.expandable_segments = true;
    if (fits(changed))
      propose(changed, {"memory.expandable_segments=true"}, "segments that grow in place: less lies idle in them",
              Numbers::same_bits);
  }

  /// Single techniques that are enough, and where none is, all of them.
  void try_techniques() {
    bool has_one = false;
    for (TechniqueFix& technique : technique_fixes(experiment_)) {
      if (technique.is_combination ? has_one : !fits(technique.changed)) continue;
      has_one =
          propose(technique.changed, std::move(technique.set), std::move(technique.what), technique.numbers) || has_one;
    }
  }

  /// The largest batch together with the lightest optimizer.
  void try_batch_with_optimizer() {
    Experiment changed = experiment_;
    std::vector<std::string> set;
    std::string what;
    if (!lighten_optimizer(changed, set, what)) return;
    changed.train.batch_size_rule = BatchSizeRule::given;
    const std::int64_t largest = largest_that(batch_size_ - 1, [&](std::int64_t batch_size) {
      changed.train.batch_size = batch_size;
      return fits(changed);
    });
    if (largest == 0) return;
    changed.train.batch_size = largest;
    set.insert(set.begin(), fmt::format("train.batch_size={}", largest));
    propose(changed, std::move(set), "a smaller batch, and " + what, Numbers::other);
  }

  /// Lowers one number of the model, on top of the changes in `base`.
  void try_model(const Experiment& base, const std::vector<std::string>& base_set, const std::string& also) {
    Experiment changed = base;
    std::vector<ModelNumber> numbers = numbers_of_model(changed.layers);
    // The last width is the number of classes.
    std::int64_t* classes = nullptr;
    for (const ModelNumber& number : numbers)
      if (number.is_width) classes = number.value;
    std::stable_sort(numbers.begin(), numbers.end(),
                     [](const ModelNumber& a, const ModelNumber& b) { return *a.value > *b.value; });
    struct Lowered {
      const ModelNumber* number;
      std::int64_t original, largest;
    };
    std::vector<Lowered> lowered;
    // Each is tried at many values, and with `auto` each try is a search of its own.
    const std::size_t most_tried = experiment_.train.checkpointing.type == CheckpointingConfig::Type::automatic ? 2 : 8;
    for (std::size_t i = 0; i < std::min(numbers.size(), most_tried); ++i) {
      const ModelNumber& number = numbers[i];
      if (number.value == classes || *number.value <= 1) continue;
      const std::int64_t original = *number.value;
      const std::int64_t largest = largest_that(original - 1, [&](std::int64_t value) {
        *number.value = value;
        return fits(changed);
      });
      *number.value = original;
      if (largest > 0) lowered.push_back({&number, original, largest});
    }
    // The smallest cuts first.
    std::stable_sort(lowered.begin(), lowered.end(), [](const Lowered& a, const Lowered& b) {
      return static_cast<double>(a.largest) / static_cast<double>(a.original) >
             static_cast<double>(b.largest) / static_cast<double>(b.original);
    });
    if (lowered.size() > 3) lowered.resize(3);
    for (const Lowered& cut : lowered) {
      *cut.number->value = cut.largest;
      std::vector<std::string> set = base_set;
      set.push_back(fmt::format("{}={}", cut.number->key, cut.largest));
      propose(
          changed, std::move(set),
          also + (cut.number->is_width ? "a narrower layer: the widest that fits" : "fewer repeats: the most that fit"),
          Numbers::other);
      *cut.number->value = cut.original;
    }
  }

  /// Every layer but the last divided by the same power of two, the smallest that fits; only for models of few layers,
  /// whose overrides can still be read.
  void try_narrower_model(const Experiment& base, const std::vector<std::string>& base_set, const std::string& also) {
    for (std::int64_t divisor = 2; divisor <= 64; divisor *= 2) {
      Experiment changed = base;
      std::vector<std::string> set = base_set;
      std::vector<ModelNumber> numbers = numbers_of_model(changed.layers);
      std::erase_if(numbers, [](const ModelNumber& number) { return !number.is_width; });
      for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
        *numbers[i].value = std::max<std::int64_t>(*numbers[i].value / divisor, 1);
        set.push_back(fmt::format("{}={}", numbers[i].key, *numbers[i].value));
      }
      if (numbers.size() < 2 || numbers.size() > 9) return;
      if (!fits(changed)) continue;
      propose(changed, std::move(set), also + fmt::format("all layers 1/{} as wide", divisor), Numbers::other);
      return;
    }
  }

  bool has_enough() const {
    return std::count_if(fixes_.begin(), fixes_.end(), [](const Change& fix) { return fix.fits; }) >= 3;
  }

  /// Where single changes are not enough: the smallest batch and the lightest optimizer, and then the model.
  void try_combinations() {
    if (!has_enough()) try_batch_with_optimizer();
    if (!has_enough()) try_narrower_model(experiment_, {}, "");
    Experiment base = with_batch(1);
    std::vector<std::string> set = {"train.batch_size=1"};
    std::string what;
    lighten_optimizer(base, set, what);
    if (!has_enough()) try_narrower_model(base, set, "the smallest batch, and ");
    if (!has_enough()) try_model(base, set, "the smallest batch, and ");
  }

  void try_limit() {
    if (!experiment_.memory.limit) return;
    const Verdict unbounded = planner_.plan(experiment_, data_, unlimited_capacity);
    if (!unbounded.problem.empty()) return;
    Experiment changed = experiment_;
    // Segments are whole MiB.
    const std::int64_t limit_mib = (unbounded.peak_reserved + mebibyte - 1) / mebibyte;
    if (limit_mib * mebibyte > device_capacity_) return;
    changed.memory.limit = limit_mib * mebibyte;
    propose(changed, {fmt::format("memory.limit={}MiB", limit_mib)}, "a higher limit: the device has the memory",
            Numbers::same_bits, changed.memory.limit);
  }

  void drop_failures_beyond_three() {
    while (fixes_.size() > 3 && !fixes_.back().fits) fixes_.pop_back();
  }

  Planner& planner_;
  const Experiment& experiment_;
  const DataDescription& data_;
  std::int64_t capacity_, device_capacity_;
  std::int64_t batch_size_ = 0, accumulation_steps_ = 1, eval_batch_size_ = 0, largest_batch_ = 0;
  double base_seconds_ = 0;  ///< of a step; 0: it cannot be planned
  std::vector<Change> fixes_;
};

}  // namespace

std::vector<Change> find_fixes(Planner& planner, const Experiment& experiment, const DataDescription& data,
                               std::int64_t capacity, std::int64_t device_capacity) {
  return FixSearch(planner, experiment, data, capacity, device_capacity).find();
}

std::int64_t largest_fitting_batch_size(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                        std::int64_t capacity, std::int64_t limit) {
  return FixSearch(planner, experiment, data, capacity, 0).largest_batch(limit);
}

}  // namespace trainer
