#include "engine/findings/rank_plans.h"

#include <fmt/format.h>
#include <algorithm>

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "datasets/dataset.h"
#include "engine/errors.h"
#include "engine/findings/kept_segments.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/communicated_bytes.h"
#include "engine/plan/cost_model.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/step_routines.h"
#include "engine/program/pipeline/pipeline_steps.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// As it is asked of that rank, which begins with its own cache where the stage before leaves one.
Experiment of_rank(const Experiment& asked, std::int64_t rank) {
  Experiment experiment = asked;
  experiment.parallel.rank = rank;
  experiment.memory.kept = nullptr;
  if (experiment.kept_from)
    experiment.kept_from = std::make_shared<const Experiment>(of_rank(*experiment.kept_from, rank));
  return experiment;
}

/// Where in a batch of so many samples parts get smaller (Note [Parts of a batch] in engine/batch_part.h): the rank
/// that has some of both, and the first that has smaller ones alone.
std::array<std::int64_t, 2> ends_of_larger_parts(std::int64_t num_samples, const BatchParts& parts) {
  const std::int64_t num_larger = num_samples % parts.num_parts;
  // All ranks take one in turn, or those of a rank follow each other.
  if (parts.stride > 1) return {num_larger % parts.stride, num_larger % parts.stride};
  const std::int64_t num_taken = parts.num_own / parts.num_pieces;
  return {num_larger / num_taken, (num_larger + num_taken - 1) / num_taken};
}

/// Of a parameter, what the rank at a place among those that share layers has.
std::int64_t own_elements(const Program& program, std::size_t parameter, std::int64_t place) {
  const Shape& whole = program.parameters[parameter].type.shape;
  if (program.parameter_cuts.empty() || !program.parameter_cuts[parameter]) return whole.num_elements();
  return program.parameter_cuts[parameter]->own_shape(whole, program.ranks.num_tensor, place).num_elements();
}

/// By their places among those that share layers, ranks from one of these to the next have parts of the same sizes:
/// Note [Cut layers] in engine/program/tensor/cut_layers.h.
std::set<std::int64_t> begins_of_layer_parts(const Program& program) {
  const std::int64_t num_ranks = program.ranks.num_tensor;
  std::set<std::int64_t> begins = {0};
  for (const std::optional<AxisCut>& cut : program.parameter_cuts) {
    if (!cut) continue;
    if (cut->sections.empty()) begins.insert(1);
    for (const std::int64_t length : cut->sections) begins.insert(length % num_ranks);
  }
  return begins;
}

/// By their places among those that share a batch, ranks from one of these to the next have parts of the same sizes, in
/// the stages whose cache they begin with, too: of batches, and of tensors (Note [Parts of tensors] in
/// engine/ops/rank_parts.h).
std::set<std::int64_t> begins_of_parts(const Experiment& settled, const DataDescription& data, const Program& program) {
  const RunSchedule schedule(settled, data);
  const std::int64_t num_ranks = settled.parallel.data;
  std::set<std::int64_t> begins = {0};
  const auto add = [&](std::initializer_list<std::int64_t> ranks) {
    for (const std::int64_t rank : ranks)
      if (rank < num_ranks) begins.insert(rank);
  };
  if (const Experiment* const former = settled.kept_from.get(); former != nullptr)
    begins.merge(begins_of_parts(*former, describe_data(former->data, former->seed), program));
  for (const std::int64_t batch :
       {schedule.batch_size(), schedule.odd_batch_size(), schedule.eval_batch_size(), schedule.odd_eval_batch_size()}) {
    const auto [mixed, smaller] = ends_of_larger_parts(batch, schedule.parts());
    add({mixed, smaller});
  }
  if (settled.parallel.shard == Shard::none) return begins;
  const std::set<std::int64_t> tensor_places = begins_of_layer_parts(program);
  for (std::size_t p = 0; p < program.parameters.size(); ++p)
    for (const std::int64_t place : tensor_places) {
      const std::int64_t count = own_elements(program, p, place);
      if (count == 0) continue;
      const std::int64_t size = rank_part(count, num_ranks, 0).count;
      add({count / size, (count + size - 1) / size});  // the shorter part, and the empty ones
    }
  return begins;
}

/// `programs`: takes its program; `sent_bytes`: of its first update.
RankPlan plan_rank(const Experiment& asked, std::int64_t rank, const DataDescription& data, const PlanTarget& target,
                   std::vector<Program>& programs, std::int64_t& sent_bytes) {
  const std::int64_t capacity = target.capacity.num_bytes;
  const Experiment experiment = with_kept_segments(of_rank(asked, rank), target);
  CompiledExperiment compiled = compile_experiment(experiment, data, *target.device, capacity);
  MemoryPlan plan = plan_memory(compiled, capacity);
  const bool fits = plan.fits;
  std::optional<OutOfMemoryContext> failure = std::move(plan.failure);
  if (!fits) plan = plan_memory(compiled, unlimited_capacity);
  MachineRates of_one = target.rates;
  of_one.links = {};
  const RunSchedule& schedule = compiled.schedule;
  const BatchParts& parts = schedule.parts();
  std::int64_t batch_size = 0;
  for (std::int64_t i = 0; i < parts.num_own; ++i) batch_size += parts.own(schedule.batch_size(), i).count;
  const double compute_seconds = predict_step_time(compiled.program, compiled.schedule, of_one).seconds;
  std::string layers = layers_of_stage(compiled.program);
  sent_bytes = communicated_bytes(compiled.program, compiled.schedule);
  programs.push_back(std::move(compiled.program));
  return {.first_rank = rank,
          .num_ranks = 1,
          .gpu = {},
          .capacity = capacity,
          .batch_size = batch_size,
          .num_parts = parts.num_own,
          .layers = std::move(layers),
          .fits = fits,
          .peak_allocated = plan.peak_allocated,
          .peak_reserved = plan.peak_reserved,
          .by_category = plan.peak.live.by_category,
          .compute_seconds = compute_seconds,
          .stage = rank_layout(experiment.parallel).stage(),
          .failure = std::move(failure)};
}

/// With the stages whose cache it begins with.
Experiment sharing(Experiment experiment, Shard shard) {
  experiment.parallel.shard = shard;
  if (experiment.kept_from)
    experiment.kept_from = std::make_shared<const Experiment>(sharing(*experiment.kept_from, shard));
  return experiment;
}

/// Rank 0, were the model shared like that; nothing where that does not go with the other settings, or the device.
std::optional<ShardPlan> plan_shard(const Experiment& asked, Shard shard, const DataDescription& data,
                                    const PlanTarget& target) try {
  const Experiment experiment = with_kept_segments(sharing(of_rank(asked, 0), shard), target);
  const CompiledExperiment compiled = compile_experiment(experiment, data, *target.device, target.capacity.num_bytes);
  MemoryPlan plan = plan_memory(compiled, target.capacity.num_bytes);
  const bool fits = plan.fits;
  if (!fits) plan = plan_memory(compiled, unlimited_capacity);
  return ShardPlan{.shard = shard,
                   .fits = fits,
                   .peak_allocated = plan.peak_allocated,
                   .peak_reserved = plan.peak_reserved,
                   .communicated_bytes = communicated_bytes(compiled.program, compiled.schedule)};
} catch (const ConfigError&) {
  return std::nullopt;
}

/// Whether two ranks that follow each other, with parts of other sizes, come to the same.
bool hold_alike(const RankPlan& a, const RankPlan& b) {
  return a.gpu == b.gpu && a.layers == b.layers && a.capacity == b.capacity && a.batch_size == b.batch_size &&
         a.fits == b.fits && a.peak_allocated == b.peak_allocated && a.peak_reserved == b.peak_reserved &&
         a.by_category == b.by_category;
}

/// Adds what ranks that share a layer hold, one behind the other, each so often for those that share a batch.
void add_plans_of_layer(RankPlan plan, std::int64_t num_in_layer, std::int64_t num_data, std::int64_t num_tensor,
                        std::vector<RankPlan>& plans) {
  if (num_in_layer == num_tensor || num_data == 1) {
    plan.num_ranks = num_in_layer * num_data;
    plans.push_back(std::move(plan));
    return;
  }
  for (std::int64_t i = 0; i < num_in_layer; ++i) {
    plans.push_back(plan);
    plans.back().first_rank += i;
    plans.back().num_ranks = num_data;
    plans.back().stride = num_tensor;
  }
}

/// Behind the others, or as one with the last of them.
void add_plan(RankPlan plan, std::vector<RankPlan>& plans) {
  if (plans.empty() || plans.back().stride > 1 || plan.stride > 1 || !hold_alike(plans.back(), plan)) {
    plans.push_back(std::move(plan));
    return;
  }
  plans.back().num_ranks += plan.num_ranks;
  plans.back().compute_seconds = std::max(plans.back().compute_seconds, plan.compute_seconds);
}

/// Of an update; nothing where a link that it takes is not known.
std::optional<double> update_seconds(const Program& program, const RunSchedule& schedule, const RankLinks& links) {
  std::optional<double> seconds = 0;
  for_each_exchange(program, schedule, [&](const Exchange& exchange, double times) {
    const std::optional<double> once = exchange_seconds(exchange, links);
    seconds = seconds && once ? std::optional(*seconds + times * *once) : std::nullopt;
  });
  return seconds;
}

}  // namespace

bool RankFindings::fit() const {
  return std::all_of(plans.begin(), plans.end(), [](const RankPlan& rank) { return rank.fits; });
}

std::int64_t RankFindings::size() const {
  std::int64_t size = 0;
  for (const RankPlan& plan : plans) size += plan.num_ranks;
  return size;
}

double RankFindings::step_seconds() const {
  if (pipeline) return pipeline->step.seconds;
  double slowest = 0;
  for (const RankPlan& plan : plans) slowest = std::max(slowest, plan.compute_seconds);
  return slowest + (communication_seconds ? waiting_seconds : 0);
}

std::optional<double> RankFindings::efficiency() const {
  if (!communication_seconds) return std::nullopt;
  double computing = 0;
  for (const RankPlan& plan : plans) computing += static_cast<double>(plan.num_ranks) * plan.compute_seconds;
  return computing / (static_cast<double>(size()) * step_seconds());
}

const RankPlan& RankFindings::highest() const {
  require_internal(!plans.empty(), "there are several ranks");
  return *std::max_element(plans.begin(), plans.end(), [](const RankPlan& a, const RankPlan& b) {
    return std::pair(a.peak_reserved, a.peak_allocated) < std::pair(b.peak_reserved, b.peak_allocated);
  });
}

RankFindings find_ranks(const Experiment& asked, const DataDescription& data, std::span<const TargetOfRanks> targets,
                        const Program& program, const MachineRates& rates) {
  RankFindings findings;
  const RankLayout ranks = rank_layout(asked.parallel);
  const std::int64_t num_ranks = ranks.num_ranks();
  if (num_ranks == 1) return findings;
  // Ranks that share a layer follow each other: `begins` counts them as one.
  std::set<std::int64_t> begins;
  for (const std::int64_t place : begins_of_parts(asked, data, program))
    for (std::int64_t stage = 0; stage < ranks.num_stages; ++stage) begins.insert(place + ranks.num_data * stage);
  std::int64_t end_of_targets = 0;
  for (const TargetOfRanks& each : targets) {
    if (each.num_ranks % ranks.num_tensor != 0)
      throw ConfigError(fmt::format("{} of one kind cannot hold layers that {} ranks share: their GPUs are to be alike",
                                    each.num_ranks, ranks.num_tensor));
    begins.insert(end_of_targets);
    end_of_targets += each.num_ranks / ranks.num_tensor;
  }
  require_internal(end_of_targets * ranks.num_tensor == num_ranks, "every rank has a target");
  const RunSchedule schedule(asked, data);
  const std::set<std::int64_t> begins_in_layer = begins_of_layer_parts(program);
  std::vector<Program> stages;
  auto target = targets.begin();
  std::int64_t end_of_target = target->num_ranks / ranks.num_tensor;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    if (*begin == end_of_target) end_of_target += (++target)->num_ranks / ranks.num_tensor;
    const std::int64_t end = std::next(begin) == begins.end() ? num_ranks / ranks.num_tensor : *std::next(begin);
    std::vector<RankPlan> plans;
    for (auto place = begins_in_layer.begin(); place != begins_in_layer.end(); ++place) {
      std::vector<Program> programs;
      std::int64_t sent_bytes = 0;
      RankPlan plan = plan_rank(asked, *begin * ranks.num_tensor + *place, data, *target->target, programs, sent_bytes);
      if (plan.first_rank == 0 || ranks.num_stages > 1)
        findings.communicated_bytes = std::max(findings.communicated_bytes, sent_bytes);
      if (*place == 0 && *begin % ranks.num_data == 0) stages.push_back(std::move(programs.front()));
      plan.gpu = target->gpu;
      const std::int64_t last = std::next(place) == begins_in_layer.end() ? ranks.num_tensor : *std::next(place);
      add_plans_of_layer(std::move(plan), last - *place, end - *begin, ranks.num_tensor, plans);
    }
    for (RankPlan& plan : plans) add_plan(std::move(plan), findings.plans);
  }
  if (ranks.num_data > 1)
    for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters})
      if (std::optional<ShardPlan> plan = plan_shard(asked, shard, data, *targets.front().target))
        findings.shards.push_back(*plan);
  if (ranks.num_stages > 1 && targets.size() == 1) {
    std::vector<const Program*> programs;
    programs.reserve(stages.size());
    for (const Program& stage : stages) programs.push_back(&stage);
    findings.pipeline = predict_pipeline_time(programs, schedule, rates);
  }
  findings.links = rates.links;
  findings.communication_seconds = update_seconds(program, schedule, rates.links);
  if (findings.communication_seconds)
    findings.waiting_seconds = predict_step_time(program, schedule, rates).communication;
  return findings;
}

}  // namespace trainer
