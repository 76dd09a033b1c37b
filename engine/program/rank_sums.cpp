#include "engine/program/rank_sums.h"

#include <map>
#include <vector>

#include "engine/program/sharding.h"

namespace trainer {
namespace {

std::vector<TensorType> types_of(const Program& program, std::span<const BufferId> buffers) {
  std::vector<TensorType> types;
  types.reserve(buffers.size());
  for (const BufferId buffer : buffers) types.push_back(program.buffers[buffer].type);
  return types;
}

void append_sum(Program& program, Scheduler& scheduler, std::int64_t num_ranks, Routine& routine,
                std::vector<BufferId> buffers, Phase phase) {
  const std::vector<TensorType> types = types_of(program, buffers);
  scheduler.append_call(routine, all_reduce_op(types, num_ranks), std::move(buffers), {}, no_layer, phase);
}

std::map<DType, std::vector<BufferId>> by_type(const Program& program, std::span<const BufferId> buffers) {
  std::map<DType, std::vector<BufferId>> lists;
  for (const BufferId buffer : buffers) lists[program.buffers[buffer].type.dtype].push_back(buffer);
  return lists;
}

}  // namespace

void append_rank_sums(Program& program, Scheduler& scheduler, std::int64_t num_ranks, Routine& routine,
                      std::span<const BufferId> gradients) {
  if (num_ranks == 1) return;
  append_sum(program, scheduler, num_ranks, routine, {program.loss_statistics}, Phase::update);
  for (auto& [type, buffers] : by_type(program, gradients))
    append_sum(program, scheduler, num_ranks, routine, std::move(buffers), Phase::update);
}

Routine schedule_agreement(Program& program, Scheduler& scheduler, std::int64_t num_ranks) {
  Routine routine;
  routine.name = "agreement on an evaluation";
  if (num_ranks == 1) return routine;
  append_sum(program, scheduler, num_ranks, routine, {program.loss_statistics}, Phase::eval);
  if (program.metric_counts >= 0)
    append_sum(program, scheduler, num_ranks, routine, {program.metric_counts}, Phase::eval);
  return routine;
}

Routine schedule_shared_statistics(Program& program, Scheduler& scheduler, std::int64_t num_ranks) {
  Routine routine;
  routine.name = "running statistics of rank 0";
  if (num_ranks == 1) return routine;
  std::vector<BufferId> buffers;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    if (program.parameters[p].is_weight || program.parameters[p].is_frozen()) continue;
    buffers.push_back(program.parameter_buffers[p]);
    if (const BufferId average = program.average_buffers[p]; average >= 0) buffers.push_back(average);
  }
  if (buffers.empty()) return routine;
  const std::vector<TensorType> types = types_of(program, buffers);
  scheduler.append_call(routine, broadcast_op(types, num_ranks), std::move(buffers), {}, no_layer, Phase::eval);
  return routine;
}

Program::MicroBatch schedule_empty_micro_batch(Program& program, Scheduler& scheduler, bool accumulates) {
  Program::MicroBatch empty;
  const char* const first = "train, without samples";
  const char* const next = "train, accumulating without samples";
  if (scheduler.shares_gradients()) {
    const Program::MicroBatch whole = program.micro_batches.front();
    empty.first = schedule_without_samples(program, scheduler, whole.first, first);
    if (accumulates) empty.next = schedule_without_samples(program, scheduler, whole.next, next);
    Routine start;
    scheduler.append_start_of_statistics(start, static_cast<int>(program.loss_parts.size()),
                                         program.buffers[program.loss_statistics].layer, Phase::forward);
    empty.first.instructions.insert(empty.first.instructions.begin(), start.instructions.begin(),
                                    start.instructions.end());
    return empty;
  }
  empty.first.name = first;
  empty.next.name = next;
  scheduler.append_start_of_statistics(empty.first, static_cast<int>(program.loss_parts.size()),
                                       program.buffers[program.loss_statistics].layer, Phase::forward);
  std::vector<BufferId> gradients;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    if (!program.parameters[p].trainable) continue;
    gradients.push_back(scheduler.gradient_buffers()[p]);
    empty.first.instructions.push_back(
        {Instruction::Kind::allocate, gradients.back(), program.parameters[p].layer, Phase::backward});
  }
  for (auto& [type, buffers] : by_type(program, gradients)) {
    const std::vector<TensorType> types = types_of(program, buffers);
    scheduler.append_call(empty.first, fill_zero_op(types), std::move(buffers), {}, no_layer, Phase::backward);
  }
  return empty;
}

}  // namespace trainer
