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
  void add(std::string override_text, const std::string& what, Numbers numbers) {
    require_internal(is_technique_key(override_text.substr(0, override_text.find('='))), "techniques are listed");
    difference_.set.push_back(std::move(override_text));
    tell(what, numbers);
  }
  void tell(const std::string& what, Numbers numbers) {
    if (!what.empty()) difference_.what += (difference_.what.empty() ? "" : "; ") + what;
    difference_.numbers = std::max(difference_.numbers, numbers);
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
  if (other_batch) list.add(fmt::format("train.batch_size={}", after.train.batch_size), "", Numbers::same_bits);
  if (before.train.accumulation_steps != after.train.accumulation_steps)
    list.add(fmt::format("train.accumulation_steps={}", after.train.accumulation_steps), "", Numbers::same_bits);
  if (other_batch) {
    const bool same = keeps_samples(before, after, data) && !depends_on_batch(before.layers);
    const std::int64_t num_parts = new_schedule.step(1).num_micro_batches;
    const std::int64_t num_samples = new_schedule.step(1).num_samples;
    const std::int64_t old_samples = old_schedule.step(1).num_samples;
    std::string samples = fmt::format("{} {} an update", num_samples, num_samples == 1 ? "sample" : "samples");
    if (num_samples != old_samples) samples += fmt::format(" instead of {}", old_samples);
    if (num_parts > 1)
      samples += fmt::format(", {} at a time", new_schedule.batch_size());
    else if (num_samples == old_samples)
      samples += " at once";
    list.tell(samples, same ? Numbers::same_rounding : Numbers::other);
  }
  if (before.train.eval_batch_size != after.train.eval_batch_size)
    list.add(fmt::format("train.eval_batch_size={}", after.train.eval_batch_size), "evaluate in smaller batches",
             Numbers::same_rounding);
}

void compare_precision(const Experiment& before, const Experiment& after, DifferenceList& list) {
  if (before.train.amp != after.train.amp) {
    list.add(fmt::format("train.amp={}", text_of(after.train.amp)),
             after.train.amp == Amp::off ? "activations and products in f32" : "activations and products in 16 bit",
             Numbers::other);
  }
  const MemoryConfig &old_memory = before.memory, &memory = after.memory;
  if (old_memory.gradients != memory.gradients) {
    const bool is_half = memory.gradients == GradientStorage::half;
    list.add(fmt::format("memory.gradients={}", is_half ? "16bit" : "f32"),
             is_half ? "gradients in 16 bit" : "gradients in f32", Numbers::other);
  }
  if (old_memory.master_weights != memory.master_weights) {
    list.add(fmt::format("memory.master_weights={}", text_of(memory.master_weights)),
             memory.master_weights ? "weights in f32" : "weights in 16 bit alone, rounded at random", Numbers::other);
  }
  if (old_memory.moments != memory.moments) {
    const bool is_small = memory.moments == MomentStorage::eight_bit;
    list.add(fmt::format("memory.moments={}", is_small ? "8bit" : "f32"),
             is_small ? "the optimizer's moments in 8 bit" : "the optimizer's moments in f32", Numbers::other);
  }
}

void compare_recomputation(const Experiment& before, const Experiment& after, DifferenceList& list) {
  using Type = CheckpointingConfig::Type;
  if (before.train.checkpointing.type != after.train.checkpointing.type) {
    const Type type = after.train.checkpointing.type;
    list.add(fmt::format("train.checkpointing={}", type == Type::off    ? "off"
                                                   : type == Type::sqrt ? "sqrt"
                                                                        : "auto"),
             type == Type::off    ? "activations kept, none computed again"
             : type == Type::sqrt ? "activations computed again instead of kept, but for every √n-th layer's"
                                  : "activations computed again instead of kept: as many as must be",
             Numbers::same_bits);
  }
  if (before.memory.recompute_cheap != after.memory.recompute_cheap) {
    list.add(fmt::format("memory.recompute_cheap={}", text_of(after.memory.recompute_cheap)),
             after.memory.recompute_cheap ? "norms and activations computed again instead of kept"
                                          : "norms and activations kept instead of computed again",
             Numbers::same_bits);
  }
}

void compare_storage(const MemoryConfig& before, const MemoryConfig& after, DifferenceList& list) {
  if (before.allocator != after.allocator) {
    const bool is_planned = after.allocator == AllocatorKind::planned;
    list.add(fmt::format("memory.allocator={}", is_planned                                  ? "planned"
                                                : after.allocator == AllocatorKind::caching ? "caching"
                                                                                            : "auto"),
             is_planned ? "every buffer at a fixed place: nothing lies idle between them" : "a cache of blocks",
             Numbers::same_bits);
  }
  if (before.expandable_segments != after.expandable_segments) {
    list.add(
        fmt::format("memory.expandable_segments={}", text_of(after.expandable_segments)),
        after.expandable_segments ? "segments that grow in place: less lies idle in them" : "segments of fixed sizes",
        Numbers::same_bits);
  }
  if (before.update != after.update) {
    const bool is_early = after.update == UpdatePlace::in_backward;
    list.add(fmt::format("memory.update={}", is_early ? "in_backward" : "at_end"),
             is_early ? "each gradient used up and released as soon as it is there" : "updates at the end of the step",
             Numbers::same_bits);
  }
  if (before.chunked_loss != after.chunked_loss)
    list.add("memory.chunked_loss=auto", "the logits of few samples at a time", Numbers::same_rounding);
  if (before.workspace_limit != after.workspace_limit)
    list.add(fmt::format("memory.workspace_limit={}", after.workspace_limit),
             "kernels that need the least scratch; they can be slower", Numbers::same_rounding);
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
