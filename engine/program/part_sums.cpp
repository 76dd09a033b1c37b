#include "engine/program/part_sums.h"

#include <bit>
#include <string>
#include <utility>

#include "engine/ops/error_statistics.h"
#include "engine/ops/loss_statistics.h"
#include "engine/ops/part_statistics.h"
#include "engine/program/rank_sums.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;
using Item = StepItem::Kind;

/// Behind those of all depths.
std::size_t further_place(const RunSchedule& schedule) {
  return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(schedule.parts().num_own))) + 1;
}

/// Of statistics as long as those of a loss of one term or of several, as error sums are.
PartStatisticsAttributes attributes_of_sums(const Program& program, BufferId sums) {
  static_assert(int{num_error_statistics} == int{num_loss_statistics});
  return {.num_terms = static_cast<int>(program.buffers[sums].type.num_elements() / num_loss_statistics),
          .num_parts = static_cast<int>(program.part_sums.num_own)};
}

/// Allocates `sums` for each part that this rank takes, and makes a routine that keeps them for each.
BufferId keep_by_part(Program& program, Scheduler& scheduler, BufferId sums, const char* name, Phase phase,
                      std::vector<Routine>& routines) {
  const Buffer summed = program.buffers[sums];
  PartStatisticsAttributes attributes = attributes_of_sums(program, sums);
  const BufferId kept = scheduler.add_buffer(summed.name + ".of_parts", summed.layer, summed.category,
                                             sum_part_statistics_op(attributes).inputs[1]);
  program.load.instructions.push_back({Kind::allocate, kept, summed.layer, Phase::load});
  for (attributes.part = 0; attributes.part < attributes.num_parts; ++attributes.part) {
    Routine routine;
    routine.name = name;
    scheduler.append_call(routine, keep_part_statistics_op(attributes), {sums, kept}, {}, summed.layer, phase);
    routines.push_back(std::move(routine));
  }
  return kept;
}

/// `kept`: the sums by part; −1: batches are not cut.
void append_sum_of_parts(Program& program, Scheduler& scheduler, Routine& routine, BufferId sums, BufferId kept,
                         Phase phase) {
  const auto append_sum_over_ranks = [&](BufferId buffer) {
    if (program.ranks.sample_group().count == 1) return;
    const TensorType type = program.buffers[buffer].type;
    scheduler.append_call(routine, all_reduce_op({&type, 1}, program.ranks.sample_group()), {buffer}, {}, no_layer,
                          phase);
  };
  if (kept < 0) return append_sum_over_ranks(sums);
  // Ranks stand at the leaves of the tree where parts alternate between them, and else at its root.
  const bool alternates = program.part_sums.alternates;
  if (alternates) append_sum_over_ranks(kept);
  scheduler.append_call(routine, sum_part_statistics_op(attributes_of_sums(program, sums)), {sums, kept}, {}, no_layer,
                        phase);
  if (!alternates) append_sum_over_ranks(sums);
}

/// Adds the gradients of one place to those of another, and releases them.
Routine schedule_merge(Program& program, Scheduler& scheduler, std::string name, std::size_t from, std::size_t to) {
  Routine routine;
  routine.name = std::move(name);
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const BufferId added = scheduler.gradients_at(from).kept(scheduler.shares_gradients())[p],
                   sum = scheduler.gradients_at(to).kept(scheduler.shares_gradients())[p];
    if (added < 0) continue;
    const LayerId layer = program.parameters[p].layer;
    scheduler.append_call(routine, add_op(program.buffers[sum].type), {sum, added}, {sum}, layer, Phase::backward);
    routine.instructions.push_back({Kind::release, added, layer, Phase::backward});
  }
  return routine;
}

Routine schedule_rank_sum(Program& program, Scheduler& scheduler, std::string name, std::size_t place) {
  Routine routine;
  routine.name = std::move(name);
  std::vector<BufferId> gradients;
  for (const BufferId gradient : scheduler.gradients_at(place).wholes)
    if (gradient >= 0) gradients.push_back(gradient);
  append_gradient_sums(program, scheduler, routine, gradients);
  return routine;
}

}  // namespace

const Routine& routine_of(const Program& program, const StepItem& item) {
  const PartSums& sums = program.part_sums;
  switch (item.kind) {
    case Item::keep:
      return sums.keep_statistics[item.index];
    case Item::merge:
      return sums.merges[item.index];
    case Item::merge_further:
      return sums.merge_further;
    case Item::sum_first:
      return sums.sum_first;
    case Item::sum_further:
      return sums.sum_further;
    case Item::add_further:
      return sums.add_further;
    default:
      require_internal(item.kind == Item::update, "a pass has a batch size");
      return program.update;
  }
}

const Routine& routine_of(const Program::MicroBatch& micro_batch, const StepItem& item) {
  if (item.kind == Item::first) return micro_batch.first;
  return item.kind == Item::next ? micro_batch.next : micro_batch.others[item.index];
}

std::vector<const Routine*> part_sum_routines(const Program& program) {
  const PartSums& sums = program.part_sums;
  std::vector<const Routine*> routines;
  for (const Routine& routine : sums.keep_statistics) routines.push_back(&routine);
  for (const Routine& routine : sums.keep_counts) routines.push_back(&routine);
  for (const Routine& routine : sums.merges) routines.push_back(&routine);
  for (const Routine* const routine : {&sums.merge_further, &sums.add_further, &sums.sum_first, &sums.sum_further})
    if (!routine->instructions.empty()) routines.push_back(routine);
  return routines;
}

Scheduler::Pass first_pass() { return {}; }

Scheduler::Pass next_pass(const RunSchedule& schedule) {
  if (!schedule.is_cut_into_parts()) return {.adds = true, .starts_statistics = false};
  return {.place = further_place(schedule)};
}

Scheduler::Pass other_pass(std::size_t depth) { return {.place = depth}; }

void leave_running_statistics(Graph& graph) {
  for (GraphNode& node : graph.nodes)
    if (auto* const attributes = std::get_if<BatchNorm2dAttributes>(&node.op.attributes)) attributes->momentum = 0;
}

void add_part_statistics(Program& program, Scheduler& scheduler, const RunSchedule& schedule) {
  PartSums& sums = program.part_sums;
  sums.is_on = schedule.is_cut_into_parts();
  sums.num_own = schedule.parts().num_own;
  sums.alternates = schedule.parts().stride > 1;
  if (!sums.is_on) return;
  sums.statistics = keep_by_part(program, scheduler, program.loss_statistics, "keep the loss of a part", Phase::forward,
                                 sums.keep_statistics);
  if (const BufferId counts = program.metric_counts; counts >= 0 && program.buffers[counts].type.dtype == DType::f64)
    sums.counts = keep_by_part(program, scheduler, counts, "keep the errors of a part", Phase::eval, sums.keep_counts);
}

void append_statistics_sum(Program& program, Scheduler& scheduler, Routine& routine, Phase phase) {
  append_sum_of_parts(program, scheduler, routine, program.loss_statistics, program.part_sums.statistics, phase);
}

void append_counts_sum(Program& program, Scheduler& scheduler, Routine& routine) {
  if (program.metric_counts < 0) return;
  append_sum_of_parts(program, scheduler, routine, program.metric_counts, program.part_sums.counts, Phase::eval);
}

void add_part_sums(Program& program, Scheduler& scheduler, const RunSchedule& schedule) {
  PartSums& sums = program.part_sums;
  if (!sums.is_on) return;
  const auto num_depths = static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(sums.num_own)));
  for (std::size_t to = 0; to < num_depths; ++to)
    sums.merges.push_back(schedule_merge(program, scheduler, "add up parts", to + 1, to));
  if (!schedule.accumulates()) return;
  const std::size_t further = further_place(schedule);
  if (num_depths > 0)
    sums.merge_further = schedule_merge(program, scheduler, "add up parts of a further micro-batch", 1, further);
  sums.add_further = schedule_merge(program, scheduler, "add a further micro-batch", further, 0);
  sums.sums_over_ranks = program.ranks.num_data > 1 && !scheduler.shares_gradients();
  if (!sums.sums_over_ranks) return;
  sums.sum_first = schedule_rank_sum(program, scheduler, "sum over ranks", 0);
  sums.sum_further = schedule_rank_sum(program, scheduler, "sum of a further micro-batch over ranks", further);
}

}  // namespace trainer
