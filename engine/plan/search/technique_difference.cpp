#include "engine/plan/search/technique_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/config/fields/model_numbers.h"
#include "engine/config/override_text.h"
#include "engine/errors.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

class DifferenceList {
 public:
  DifferenceList(const Experiment& before, const Experiment& after) : before_(before), after_(after) {}

  /// Sets a key where it differs; whether it does.
  bool set(std::string_view key) {
    require_internal(is_technique_key(key), "techniques are declared as such");
    std::optional<std::string> text = override_between(key, before_, after_);
    if (!text) return false;
    difference_.set.push_back(std::move(*text));
    difference_.numbers = std::max(difference_.numbers, *find_key_effects(key)->technique_numbers);
    return true;
  }
  void tell(const ChangePart& part, NumbersEffect numbers) {
    difference_.parts.push_back(part);
    difference_.numbers = std::max(difference_.numbers, numbers);
  }
  void compare(std::string_view key, Effect effect) {
    if (set(key)) tell(effect, NumbersEffect::same_bits);
  }
  TechniqueDifference finish() && { return std::move(difference_); }

 private:
  const Experiment &before_, &after_;
  TechniqueDifference difference_;
};

void compare_batches(const Experiment& before, const Experiment& after, const DataDescription& data,
                     DifferenceList& list) {
  const RunSchedule old_schedule(before, data), new_schedule(after, data);
  const bool other_batch = old_schedule.batch_size() != new_schedule.batch_size();
  if (other_batch) list.set("train.batch_size");
  list.set("train.accumulation_steps");
  if (other_batch) {
    const bool same = keeps_samples(before, after, data) && !depends_on_batch(before);
    const RunSchedule::Step old_step = old_schedule.step(1), new_step = new_schedule.step(1);
    list.tell(UpdateCut{.num_samples = new_step.num_samples,
                        .num_samples_before = old_step.num_samples,
                        .num_parts = new_step.num_micro_batches,
                        .batch_size = new_schedule.batch_size()},
              same ? NumbersEffect::same_rounding : NumbersEffect::other);
  }
  list.compare("train.eval_batch_size", Effect::smaller_eval_batch);
}

void compare_precision(const Experiment& after, DifferenceList& list) {
  const MemoryConfig& memory = after.memory;
  list.compare("train.amp", after.train.amp == Amp::off ? Effect::f32_operands : Effect::half_operands);
  list.compare("memory.gradients",
               memory.gradients == GradientStorage::half ? Effect::half_gradients : Effect::f32_gradients);
  list.compare("memory.master_weights", memory.master_weights ? Effect::f32_weights : Effect::half_weights);
  list.compare("memory.moments",
               memory.moments == MomentStorage::eight_bit ? Effect::eight_bit_moments : Effect::f32_moments);
}

void compare_recomputation(const Experiment& after, DifferenceList& list) {
  using Type = CheckpointingConfig::Type;
  const Type type = after.train.checkpointing.type;
  list.compare("train.checkpointing", type == Type::off    ? Effect::no_recomputation
                                      : type == Type::sqrt ? Effect::recomputation_by_rule
                                                           : Effect::least_recomputation);
  list.compare("memory.recompute_cheap",
               after.memory.recompute_cheap ? Effect::cheap_recomputation : Effect::no_cheap_recomputation);
}

Effect effect_of(Shard shard) {
  switch (shard) {
    case Shard::none:
      return Effect::unshared_model;
    case Shard::optimizer:
      return Effect::shared_state;
    case Shard::gradients:
      return Effect::shared_gradients;
    case Shard::parameters:
      return Effect::shared_weights;
  }
  return Effect::unshared_model;
}

void compare_storage(const MemoryConfig& after, DifferenceList& list) {
  list.compare("memory.allocator",
               after.allocator == AllocatorKind::planned ? Effect::planned_places : Effect::cached_blocks);
  list.compare("memory.expandable_segments",
               after.expandable_segments ? Effect::expandable_segments : Effect::fixed_segments);
  list.compare("memory.update",
               after.update == UpdatePlace::in_backward ? Effect::updates_in_backward : Effect::updates_at_end);
  list.compare("memory.chunked_loss", Effect::chunked_loss);
  list.compare("memory.workspace_limit", Effect::least_scratch);
}

}  // namespace

bool is_technique_key(std::string_view key) {
  const KeyEffects* effects = find_key_effects(key);
  return effects != nullptr && effects->technique_numbers;
}

TechniqueDifference find_technique_difference(const Experiment& before, const Experiment& after,
                                              const DataDescription& data) {
  DifferenceList list(before, after);
  compare_batches(before, after, data, list);
  compare_precision(after, list);
  compare_recomputation(after, list);
  compare_storage(after.memory, list);
  list.compare("parallel.shard", effect_of(after.parallel.shard));
  list.compare("parallel.overlap", after.parallel.overlap ? Effect::exchanges_beside : Effect::exchanges_behind);
  list.compare("parallel.bucket_size", Effect::other_buckets);
  list.compare("parallel.prefetch", Effect::other_prefetch);
  return std::move(list).finish();
}

bool keeps_samples(const Experiment& before, const Experiment& after, const DataDescription& data) {
  const RunSchedule old_schedule(before, data), new_schedule(after, data);
  const std::int64_t last = old_schedule.steps_per_epoch();
  return last == new_schedule.steps_per_epoch() &&
         old_schedule.step(1).num_samples == new_schedule.step(1).num_samples &&
         old_schedule.step(last).num_samples == new_schedule.step(last).num_samples;
}

}  // namespace trainer
