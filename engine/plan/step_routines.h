#pragma once

#include <algorithm>

#include "engine/errors.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// The routines of a batch size, of which the program was compiled for all that its run meets.
inline const Program::MicroBatch& micro_batch_of(const Program& program, std::int64_t batch_size) {
  const auto found = std::find_if(program.micro_batches.begin(), program.micro_batches.end(),
                                  [&](const Program::MicroBatch& entry) { return entry.batch_size == batch_size; });
  require_internal(found != program.micro_batches.end(), "every batch size has a routine");
  return *found;
}
inline const Routine& evaluation_of(const Program& program, std::int64_t batch_size) {
  const auto found = std::find_if(program.evaluations.begin(), program.evaluations.end(),
                                  [&](const Routine& entry) { return entry.batch_size == batch_size; });
  require_internal(found != program.evaluations.end(), "every evaluation batch size has a routine");
  return *found;
}

/// Calls `visit(routine)` for each routine of a step, in the order in which the training loop runs them; the loop
/// itself chooses them by the batches that its reader delivers, and may end a step before the update.
template <typename Visit>
void for_each_step_routine(const Program& program, const RunSchedule& schedule, const RunSchedule::Step& step,
                           Visit&& visit) {
  for (std::int64_t m = 0; m < step.num_micro_batches; ++m) {
    const Program::MicroBatch& micro_batch = micro_batch_of(program, schedule.own_of_micro_batch(step, m));
    visit(m == 0 ? micro_batch.first : micro_batch.next);
  }
  visit(program.update);
}

/// Calls `visit(routine, times)` for each routine of the run's first step, once each.
template <typename Visit>
void for_each_first_step_routine(const Program& program, const RunSchedule& schedule, Visit&& visit) {
  const RunSchedule::Step step = schedule.step(1);
  const std::int64_t num_odd = step.last_is_odd && step.num_micro_batches > 1 ? 1 : 0;
  visit(program.micro_batches.front().first, 1.0);
  visit(program.micro_batches.front().next, static_cast<double>(step.num_micro_batches - 1 - num_odd));
  if (num_odd > 0)
    visit(micro_batch_of(program, schedule.own_of_micro_batch(step, step.num_micro_batches - 1)).next, 1.0);
  visit(program.update, 1.0);
}

/// Whether a rank without a sample of an evaluated batch runs a routine for it: where ranks share weights.
inline bool joins_without_samples(const Program& program) {
  return std::any_of(program.evaluations.begin(), program.evaluations.end(),
                     [](const Routine& routine) { return routine.batch_size == 0; });
}

/// Calls `visit(routine, times)` for each routine of an evaluation, in order.
template <typename Visit>
void for_each_evaluation_routine(const Program& program, const RunSchedule& schedule, Visit&& visit) {
  const std::int64_t whole = schedule.own_eval_batch_size(), odd = schedule.own(schedule.odd_eval_batch_size());
  const bool joins = joins_without_samples(program);
  if (schedule.num_whole_eval_batches() > 0 && (whole > 0 || joins))
    visit(evaluation_of(program, whole), schedule.num_whole_eval_batches());
  if (odd > 0 || (schedule.odd_eval_batch_size() > 0 && joins)) visit(evaluation_of(program, odd), std::int64_t{1});
  if (!program.agree_evaluation.instructions.empty()) visit(program.agree_evaluation, std::int64_t{1});
}

}  // namespace trainer
