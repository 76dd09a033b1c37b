#include "engine/program/rank_sums.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "engine/program/part_sums.h"
#include "engine/program/sharding.h"

namespace trainer {
namespace {

void append_sum(Program& program, Scheduler& scheduler, Routine& routine, std::vector<BufferId> buffers, Phase phase) {
  const std::vector<TensorType> types = types_of(program, buffers);
  scheduler.append_call(routine, all_reduce_op(types, program.ranks.data_group()), std::move(buffers), {}, no_layer,
                        phase);
}

std::map<DType, std::vector<BufferId>> by_type(const Program& program, std::span<const BufferId> buffers) {
  std::map<DType, std::vector<BufferId>> lists;
  for (const BufferId buffer : buffers) lists[program.buffers[buffer].type.dtype].push_back(buffer);
  return lists;
}

void append_zero_gradients(Program& program, Scheduler& scheduler, Routine& routine,
                           const Scheduler::Gradients& gradients) {
  std::vector<BufferId> filled;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    if (!program.parameters[p].trainable || !program.holds(p) || gradients.are_summed[p] != 0) continue;
    filled.push_back(gradients.wholes[p]);
    routine.instructions.push_back(
        {Instruction::Kind::allocate, filled.back(), program.parameters[p].layer, Phase::backward});
  }
  for (auto& [type, buffers] : by_type(program, filled)) {
    const std::vector<TensorType> types = types_of(program, buffers);
    scheduler.append_call(routine, fill_zero_op(types), std::move(buffers), {}, no_layer, Phase::backward);
  }
}

/// Of gradients that are summed at a time where their memory is freed then.
constexpr std::int64_t freed_bucket_bytes = std::int64_t{1} << 20;

/// Where it stays: as many as leave several buckets, and give more time to bytes than to messages, of which an exchange
/// has one more each time that machines of eight ranks double (Note [Links between ranks] in engine/plan/link_rates.h).
std::int64_t kept_bucket_bytes(std::int64_t num_ranks) {
  const auto doublings = std::bit_width(static_cast<std::uint64_t>(num_ranks - 1) / 8);
  return (std::int64_t{4} << 20) * (1 + doublings);
}

}  // namespace

std::int64_t bucket_bytes(const ParallelConfig& parallel) {
  if (parallel.bucket_size > 0) return parallel.bucket_size;
  return parallel.shard >= Shard::gradients ? freed_bucket_bytes : kept_bucket_bytes(parallel.data);
}

Scheduler::GradientSums gradient_sums(const Experiment& experiment, const RunSchedule& schedule) {
  const Sharding sharding(experiment);
  const bool overlaps = experiment.parallel.overlap && experiment.parallel.data > 1;
  // What a rank without samples does in a pipeline has no backward pass in which it could join.
  const std::int64_t odd = schedule.odd_batch_size();
  const std::int64_t least = odd > 0 ? std::min(odd, schedule.batch_size()) : schedule.batch_size();
  const bool all_have_samples = !is_pipelined(experiment.parallel) || least >= experiment.parallel.data;
  const bool happens_once = !schedule.accumulates() && schedule.parts().num_own == 1 && all_have_samples;
  return {.in_backward = sharding.cuts_gradients() || (overlaps && happens_once),
          .keeps_wholes = !sharding.cuts_gradients(),
          .has_parts = sharding.is_on(),
          .bucket_bytes = bucket_bytes(experiment.parallel),
          .num_prefetched = experiment.parallel.prefetch,
          .starts = overlaps};
}

void append_gradient_sums(Program& program, Scheduler& scheduler, Routine& routine,
                          std::span<const BufferId> gradients) {
  if (program.ranks.num_data == 1 || gradients.empty()) return;
  for (auto& [type, buffers] : by_type(program, gradients))
    append_sum(program, scheduler, routine, std::move(buffers), Phase::update);
}

Routine schedule_agreement(Program& program, Scheduler& scheduler) {
  Routine routine;
  routine.name = "agreement on an evaluation";
  append_statistics_sum(program, scheduler, routine, Phase::eval);
  append_counts_sum(program, scheduler, routine);
  return routine;
}

Routine schedule_shared_statistics(Program& program, Scheduler& scheduler) {
  Routine routine;
  routine.name = "running statistics of rank 0";
  if (program.ranks.num_data == 1) return routine;
  std::vector<BufferId> buffers;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    if (program.parameters[p].is_weight || program.parameters[p].is_frozen() || !program.holds(p)) continue;
    buffers.push_back(program.parameter_buffers[p]);
    if (const BufferId average = program.average_buffers[p]; average >= 0) buffers.push_back(average);
  }
  if (buffers.empty()) return routine;
  const std::vector<TensorType> types = types_of(program, buffers);
  scheduler.append_call(routine, broadcast_op(types, program.ranks.data_group()), std::move(buffers), {}, no_layer,
                        Phase::eval);
  return routine;
}

Routine schedule_step_without_samples(Program& program, Scheduler& scheduler) {
  Routine routine;
  routine.name = "train, without samples";
  scheduler.append_start_of_statistics(routine, static_cast<int>(program.loss_parts.size()),
                                       program.buffers[program.loss_statistics].layer, Phase::forward);
  append_zero_gradients(program, scheduler, routine, scheduler.gradients_at(0));
  return routine;
}

Program::MicroBatch schedule_empty_micro_batch(Program& program, Scheduler& scheduler, const RunSchedule& schedule) {
  Program::MicroBatch empty;
  // A copy: what is scheduled may move the program's lists.
  const Program::MicroBatch whole = program.micro_batches.front();
  const auto schedule_pass = [&](const Routine& with_samples, const Scheduler::Pass& pass, const char* name) {
    Routine routine;
    if (pass.starts_statistics)
      scheduler.append_start_of_statistics(routine, static_cast<int>(program.loss_parts.size()),
                                           program.buffers[program.loss_statistics].layer, Phase::forward);
    const Routine shared = schedule_without_samples(program, scheduler, with_samples, name);
    routine.instructions.insert(routine.instructions.end(), shared.instructions.begin(), shared.instructions.end());
    if (!scheduler.shares_gradients() && !pass.adds)
      append_zero_gradients(program, scheduler, routine, scheduler.gradients_at(pass.place));
    routine.name = name;
    return routine;
  };
  empty.first = schedule_pass(whole.first, first_pass(), "train, without samples");
  if (schedule.accumulates())
    empty.next = schedule_pass(whole.next, next_pass(schedule), "train, accumulating without samples");
  for (std::size_t i = 0; i < whole.others.size(); ++i)
    empty.others.push_back(schedule_pass(whole.others[i], other_pass(i + 1), "train a part without samples"));
  return empty;
}

}  // namespace trainer
