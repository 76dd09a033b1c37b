#include "engine/plan/search/technique_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/plan/search/model_numbers.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

constexpr std::array<std::string_view, 14> technique_keys = {
    "train.batch_size",       "train.accumulation_steps",   "train.eval_batch_size", "train.amp",
    "train.checkpointing",    "memory.gradients",           "memory.master_weights", "memory.moments",
    "memory.allocator",       "memory.expandable_segments", "memory.update",         "memory.chunked_loss",
    "memory.recompute_cheap", "memory.workspace_limit"};

class DifferenceList {
 public:
  void set(std::string override_text) {
    require_internal(is_technique_key(override_text.substr(0, override_text.find('='))), "techniques are listed");
    difference_.set.push_back(std::move(override_text));
  }
  void tell(const ChangePart& part, Numbers numbers) {
    difference_.parts.push_back(part);
    difference_.numbers = std::max(difference_.numbers, numbers);
  }
  void add(std::string override_text, const ChangePart& part, Numbers numbers) {
    set(std::move(override_text));
    tell(part, numbers);
  }
  TechniqueDifference finish() && { return std::move(difference_); }

 private:
  TechniqueDifference difference_;
};

const char* text_of(bool value) { return value ? "true" : "false"; }

const char* text_of(Amp amp) { return amp == Amp::off ? "off" : amp == Amp::bf16 ? "bf16" : "fp16"; }

void compare_batches(const Experiment& before, const Experiment& after, const DataDescription& data,
                     DifferenceList& list) {
  const RunSchedule old_schedule(before, data), new_schedule(after, data);
  const bool other_batch = old_schedule.batch_size() != new_schedule.batch_size();
  if (other_batch) list.set(fmt::format("train.batch_size={}", after.train.batch_size));
  if (before.train.accumulation_steps != after.train.accumulation_steps)
    list.set(fmt::format("train.accumulation_steps={}", after.train.accumulation_steps));
  if (other_batch) {
    const bool same = keeps_samples(before, after, data) && !depends_on_batch(before.layers);
    const RunSchedule::Step old_step = old_schedule.step(1), new_step = new_schedule.step(1);
    list.tell(UpdateCut{.num_samples = new_step.num_samples,
                        .num_samples_before = old_step.num_samples,
                        .num_parts = new_step.num_micro_batches,
                        .batch_size = new_schedule.batch_size()},
              same ? Numbers::same_rounding : Numbers::other);
  }
  if (before.train.eval_batch_size != after.train.eval_batch_size)
    list.add(fmt::format("train.eval_batch_size={}", after.train.eval_batch_size), Effect::smaller_eval_batch,
             Numbers::same_rounding);
}

void compare_precision(const Experiment& before, const Experiment& after, DifferenceList& list) {
  if (before.train.amp != after.train.amp) {
    list.add(fmt::format("train.amp={}", text_of(after.train.amp)),
             after.train.amp == Amp::off ? Effect::f32_operands : Effect::half_operands, Numbers::other);
  }
  const MemoryConfig &old_memory = before.memory, &memory = after.memory;
  if (old_memory.gradients != memory.gradients) {
    const bool is_half = memory.gradients == GradientStorage::half;
    list.add(fmt::format("memory.gradients={}", is_half ? "16bit" : "f32"),
             is_half ? Effect::half_gradients : Effect::f32_gradients, Numbers::other);
  }
  if (old_memory.master_weights != memory.master_weights) {
    list.add(fmt::format("memory.master_weights={}", text_of(memory.master_weights)),
             memory.master_weights ? Effect::f32_weights : Effect::half_weights, Numbers::other);
  }
  if (old_memory.moments != memory.moments) {
    const bool is_small = memory.moments == MomentStorage::eight_bit;
    list.add(fmt::format("memory.moments={}", is_small ? "8bit" : "f32"),
             is_small ? Effect::eight_bit_moments : Effect::f32_moments, Numbers::other);
  }
}

void compare_recomputation(const Experiment& before, const Experiment& after, DifferenceList& list) {
  using Type = CheckpointingConfig::Type;
  if (before.train.checkpointing.type != after.train.checkpointing.type) {
    const Type type = after.train.checkpointing.type;
    list.add(fmt::format("train.checkpointing={}", type == Type::off    ? "off"
                                                   : type == Type::sqrt ? "sqrt"
                                                                        : "auto"),
             type == Type::off    ? Effect::no_recomputation
             : type == Type::sqrt ? Effect::recomputation_by_rule
                                  : Effect::least_recomputation,
             Numbers::same_bits);
  }
  if (before.memory.recompute_cheap != after.memory.recompute_cheap) {
    list.add(fmt::format("memory.recompute_cheap={}", text_of(after.memory.recompute_cheap)),
             after.memory.recompute_cheap ? Effect::cheap_recomputation : Effect::no_cheap_recomputation,
             Numbers::same_bits);
  }
}

void compare_storage(const MemoryConfig& before, const MemoryConfig& after, DifferenceList& list) {
  if (before.allocator != after.allocator) {
    const bool is_planned = after.allocator == AllocatorKind::planned;
    list.add(fmt::format("memory.allocator={}", is_planned                                  ? "planned"
                                                : after.allocator == AllocatorKind::caching ? "caching"
                                                                                            : "auto"),
             is_planned ? Effect::planned_places : Effect::cached_blocks, Numbers::same_bits);
  }
  if (before.expandable_segments != after.expandable_segments) {
    list.add(fmt::format("memory.expandable_segments={}", text_of(after.expandable_segments)),
             after.expandable_segments ? Effect::expandable_segments : Effect::fixed_segments, Numbers::same_bits);
  }
  if (before.update != after.update) {
    const bool is_early = after.update == UpdatePlace::in_backward;
    list.add(fmt::format("memory.update={}", is_early ? "in_backward" : "at_end"),
             is_early ? Effect::updates_in_backward : Effect::updates_at_end, Numbers::same_bits);
  }
  if (before.chunked_loss != after.chunked_loss)
    list.add("memory.chunked_loss=auto", Effect::chunked_loss, Numbers::same_rounding);
  if (before.workspace_limit != after.workspace_limit)
    list.add(fmt::format("memory.workspace_limit={}", after.workspace_limit), Effect::least_scratch,
             Numbers::same_rounding);
}

}  // namespace

bool is_technique_key(std::string_view key) {
  return std::find(technique_keys.begin(), technique_keys.end(), key) != technique_keys.end();
}

TechniqueDifference find_technique_difference(const Experiment& before, const Experiment& after,
                                              const DataDescription& data) {
  DifferenceList list;
  compare_batches(before, after, data, list);
  compare_precision(before, after, list);
  compare_recomputation(before, after, list);
  compare_storage(before.memory, after.memory, list);
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
