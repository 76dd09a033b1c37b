#include "engine/plan/search/choice_space.h"

#include <algorithm>
#include <utility>

#include "engine/config/override_text.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/plan/search/technique_difference.h"
#include "engine/program/rank_sums.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

void plan_places(Experiment& experiment) { experiment = with_allocator(std::move(experiment), AllocatorKind::planned); }

void grow_segments(Experiment& experiment) { experiment.memory.expandable_segments = true; }

void update_in_backward(Experiment& experiment) { experiment.memory.update = UpdatePlace::in_backward; }

void evaluate_in_micro_batches(Experiment& experiment) {
  experiment.train.eval_batch_size = experiment.train.batch_size.number().value_or(0);
}

/// Where train.batch_size is more than the data set has.
void evaluate_as_training(Experiment& experiment) { experiment.train.eval_batch_size = 0; }

void chunk_loss(Experiment& experiment) { experiment.memory.chunked_loss = -1; }

void limit_workspace(Experiment& experiment) { experiment.memory.workspace_limit = 0; }

void share_state(Experiment& experiment) { experiment.parallel.shard = Shard::optimizer; }
void share_gradients(Experiment& experiment) { experiment.parallel.shard = Shard::gradients; }
void share_weights(Experiment& experiment) { experiment.parallel.shard = Shard::parameters; }

bool can_update_in_backward(const Experiment& experiment) {
  const TrainConfig& train = experiment.train;
  return experiment.memory.update == UpdatePlace::at_end && train.clip_norm <= 0 && train.accumulation_steps == 1 &&
         train.amp != Amp::fp16 && total_ranks(experiment.parallel) == 1 && !is_pipelined(experiment.parallel) &&
         !experiment.parallel.deterministic;
}

std::vector<Saver> savers(const Experiment& experiment, const DataDescription& data, Saver placement) {
  const MemoryConfig& memory = experiment.memory;
  std::vector<Saver> result;
  if (memory.allocator == AllocatorKind::caching && (placement == plan_places || !memory.expandable_segments))
    result.push_back(placement);
  if (can_update_in_backward(experiment)) result.push_back(update_in_backward);
  const std::pair<Shard, Saver> shards[] = {
      {Shard::optimizer, share_state}, {Shard::gradients, share_gradients}, {Shard::parameters, share_weights}};
  for (const auto& [shard, saver] : shards)
    if (experiment.parallel.data > 1 && experiment.parallel.shard < shard) result.push_back(saver);
  const RunSchedule schedule(experiment, data);
  const bool is_whole = experiment.train.batch_size.number() == schedule.batch_size();
  if (schedule.evaluates() && schedule.eval_batch_size() > schedule.batch_size())
    result.push_back(is_whole ? evaluate_in_micro_batches : evaluate_as_training);
  if (memory.chunked_loss == 0) result.push_back(chunk_loss);
  if (memory.workspace_limit > 0) result.push_back(limit_workspace);
  return result;
}

}  // namespace

Experiment with_settled_batch(const Planner& planner, const Experiment& experiment, const DataDescription& data,
                              std::int64_t capacity) {
  if (!experiment.train.batch_size.is_automatic()) return experiment;
  Experiment settled = experiment;
  settled.train.batch_size = settle_experiment(experiment, data, planner.device(), capacity).train.batch_size;
  return settled;
}

void add_settled_batch(const Experiment& experiment, const Experiment& changed, std::vector<std::string>& set) {
  const bool is_there = std::any_of(set.begin(), set.end(),
                                    [](const std::string& word) { return word.starts_with("train.batch_size="); });
  if (experiment.train.batch_size.is_automatic() && !set.empty() && !is_there)
    set.insert(set.begin(), override_of("train.batch_size", changed));
}

Experiment with_split(const Experiment& experiment, const BatchSplit& split) {
  Experiment changed = experiment;
  changed.train.batch_size = split.batch_size;
  changed.train.accumulation_steps = split.accumulation_steps;
  // A rule of the configuration: gradients are summed before they are used up.
  if (split.accumulation_steps > 1) changed.memory.update = UpdatePlace::at_end;
  return changed;
}

std::vector<BatchSplit> batch_splits(const Experiment& experiment, const DataDescription& data) {
  const RunSchedule schedule(experiment, data);
  const std::int64_t num_samples = schedule.step(1).num_samples;
  std::vector<BatchSplit> splits;
  const auto add = [&](std::int64_t batch_size, std::int64_t num_parts) {
    const BatchSplit split{batch_size, num_parts};
    if (batch_size != schedule.batch_size() && keeps_samples(experiment, with_split(experiment, split), data))
      splits.push_back(split);
  };
  splits.push_back({schedule.batch_size(), experiment.train.accumulation_steps});
  if (schedule.steps_per_epoch() == 1) {
    constexpr std::int64_t most_in_a_row = 64;
    for (std::int64_t parts = 1; parts <= num_samples; parts += parts < most_in_a_row ? 1 : parts) {
      const std::int64_t batch_size = (num_samples + parts - 1) / parts;
      add(batch_size, (num_samples + batch_size - 1) / batch_size);
    }
  }
  for (std::int64_t small = 1; small * small <= num_samples; ++small) {
    if (num_samples % small != 0) continue;
    add(small, num_samples / small);
    add(num_samples / small, small);
  }
  std::sort(splits.begin(), splits.end(),
            [](const BatchSplit& a, const BatchSplit& b) { return a.batch_size > b.batch_size; });
  const auto same = [](const BatchSplit& a, const BatchSplit& b) { return a.batch_size == b.batch_size; };
  splits.erase(std::unique(splits.begin(), splits.end(), same), splits.end());
  return splits;
}

std::vector<Experiment> arithmetic_variants(const Experiment& experiment, Amp half) {
  std::vector<Experiment> variants = {experiment};
  const bool has_moments = experiment.optimizer.type != OptimizerType::sgd;
  for (const Amp amp : {Amp::off, half}) {
    for (const bool half_gradients : {false, true}) {
      for (const bool master_weights : {true, false}) {
        for (const MomentStorage moments : {MomentStorage::f32, MomentStorage::eight_bit}) {
          Experiment variant = experiment;
          variant.train.amp = amp;
          variant.memory.gradients = half_gradients ? GradientStorage::half : GradientStorage::f32;
          variant.memory.master_weights = master_weights;
          variant.memory.moments = moments;
          if (amp == Amp::fp16) variant.memory.update = UpdatePlace::at_end;
          // Stages hand their parameters on as they are.
          const bool hands_on = experiment.stage.empty() || master_weights == experiment.memory.master_weights;
          const bool is_possible =
              hands_on && (amp != Amp::off || (!half_gradients && master_weights)) &&
              (amp == Amp::bf16 || master_weights) && (master_weights || experiment.average.type == AverageType::off) &&
              (has_moments || moments == MomentStorage::f32) &&
              (experiment.parallel.tensor == 1 || (master_weights && moments == MomentStorage::f32));
          const bool is_own = amp == experiment.train.amp && variant.memory.gradients == experiment.memory.gradients &&
                              moments == experiment.memory.moments &&
                              master_weights == experiment.memory.master_weights;
          if (is_possible && !is_own) variants.push_back(variant);
        }
      }
    }
  }
  const auto num_changed = [&](const Experiment& variant) {
    return (variant.train.amp != experiment.train.amp) + (variant.memory.gradients != experiment.memory.gradients) +
           (variant.memory.master_weights != experiment.memory.master_weights) +
           (variant.memory.moments != experiment.memory.moments);
  };
  std::stable_sort(variants.begin(), variants.end(),
                   [&](const Experiment& a, const Experiment& b) { return num_changed(a) < num_changed(b); });
  return variants;
}

std::vector<Experiment> recompute_levels(const Experiment& experiment) {
  using Type = CheckpointingConfig::Type;
  std::vector<Experiment> levels = {experiment};
  const auto add = [&](Type type, bool cheap) {
    if (type == experiment.train.checkpointing.type && cheap == experiment.memory.recompute_cheap) return;
    Experiment level = experiment;
    if (type != experiment.train.checkpointing.type)
      level.train.checkpointing = {.type = type, .every = 0, .layers = {}};
    level.memory.recompute_cheap = cheap;
    levels.push_back(std::move(level));
  };
  add(Type::off, false);
  add(Type::off, true);
  add(Type::automatic, true);
  return levels;
}

std::vector<Experiment> exchange_variants(const Experiment& experiment) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  std::vector<Experiment> variants;
  const ParallelConfig& parallel = experiment.parallel;
  if (parallel.data == 1) return variants;
  const auto add = [&](auto&& change) {
    variants.push_back(experiment);
    change(variants.back().parallel);
  };
  for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters})
    if (shard != parallel.shard) add([=](ParallelConfig& other) { other.shard = shard; });
  add([](ParallelConfig& other) { other.overlap = !other.overlap; });
  if (const std::int64_t num_bytes = bucket_bytes(parallel); num_bytes <= most_bytes / 2)
    add([=](ParallelConfig& other) { other.bucket_size = 2 * num_bytes; });
  if (parallel.overlap && parallel.shard == Shard::parameters && 2 * parallel.prefetch <= most_prefetched)
    add([](ParallelConfig& other) { other.prefetch *= 2; });
  return variants;
}

std::vector<Saver> savers_for(const Experiment& experiment, const DataDescription& data) {
  return savers(experiment, data, plan_places);
}

std::vector<Saver> expandable_savers_for(const Experiment& experiment, const DataDescription& data) {
  return savers(experiment, data, grow_segments);
}

}  // namespace trainer
