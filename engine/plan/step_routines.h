#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "engine/errors.h"
#include "engine/program/part_sums.h"
#include "engine/program/pipeline/pipeline_steps.h"
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

inline constexpr std::int64_t no_pass = -1;

/// Calls `visit(routine, pass)` for each routine of a step, in the order in which the training loop runs them: with the
/// pass that begins with it, which takes the reader's batch of that number, or no_pass. In a pipeline with the pass
/// that it is of; one with fields takes the batch.
template <typename Visit>
void for_each_step_routine(const Program& program, const RunSchedule& schedule, const RunSchedule::Step& step,
                           Visit&& visit) {
  if (program.pipeline) {
    for (const PipelineSteps::Entry& entry : pipeline_step(program, step).entries)
      visit(program.pipeline->routines[static_cast<std::size_t>(entry.routine)], std::int64_t{entry.pass});
    visit(program.update, no_pass);
    return;
  }
  std::int64_t pass = 0;
  for_each_step_item(program, step.num_micro_batches, [&](const StepItem& item) {
    if (item.is_pass()) {
      const Program::MicroBatch& micro_batch = micro_batch_of(program, schedule.own_of_pass(step, pass).count);
      visit(routine_of(micro_batch, item), pass++);
    } else {
      visit(routine_of(program, item), no_pass);
    }
  });
}

/// Whether training takes data: the inner stages of a pipeline do not.
inline bool takes_batches(const Program& program) {
  return !program.pipeline || std::any_of(program.pipeline->routines.begin(), program.pipeline->routines.end(),
                                          [](const Routine& routine) { return !routine.fields.empty(); });
}

/// The same of evaluations.
inline bool takes_evaluated_batches(const Program& program) {
  return std::any_of(program.evaluations.begin(), program.evaluations.end(), [](const Routine& routine) {
    return std::any_of(routine.fields.begin(), routine.fields.end(), [](BufferId field) { return field >= 0; });
  });
}

/// One that takes a batch of so many samples: its fields.
inline const Routine& taking_routine(const Program& program, std::int64_t num_samples) {
  if (!program.pipeline) return micro_batch_of(program, num_samples).first;
  const std::vector<Routine>& routines = program.pipeline->routines;
  const auto found = std::find_if(routines.begin(), routines.end(), [&](const Routine& routine) {
    return routine.batch_size == num_samples && !routine.fields.empty();
  });
  require_internal(found != routines.end(), "every batch size has a routine");
  return *found;
}

/// Calls `visit(routine, times)` for each routine of the run's first step, once each.
template <typename Visit>
void for_each_first_step_routine(const Program& program, const RunSchedule& schedule, Visit&& visit) {
  std::vector<std::pair<const Routine*, double>> routines;
  for_each_step_routine(program, schedule, schedule.step(1), [&](const Routine& routine, std::int64_t) {
    const auto known =
        std::find_if(routines.begin(), routines.end(), [&](const auto& counted) { return counted.first == &routine; });
    known != routines.end() ? ++known->second : routines.emplace_back(&routine, 1.0).second;
  });
  for (const auto& [routine, times] : routines) visit(*routine, times);
}

/// Whether a rank without a sample of an evaluated batch runs a routine for it: where ranks share weights.
inline bool joins_without_samples(const Program& program) {
  return std::any_of(program.evaluations.begin(), program.evaluations.end(),
                     [](const Routine& routine) { return routine.batch_size == 0; });
}

/// What is laid out together for one part of an evaluated batch.
struct EvaluationPass {
  std::array<const Routine*, 3> all{};
  std::size_t count = 0;  ///< 0: this rank has nothing to do
  std::span<const Routine* const> routines() const { return std::span(all).first(count); }
};

/// That of a part of so many samples, of which this rank takes the index-th of its own.
inline EvaluationPass evaluation_pass(const Program& program, std::int64_t num_samples, std::int64_t index) {
  EvaluationPass pass;
  if (num_samples == 0 && !joins_without_samples(program)) return pass;
  pass.all[pass.count++] = &evaluation_of(program, num_samples);
  if (program.part_sums.statistics >= 0)
    pass.all[pass.count++] = &program.part_sums.keep_statistics[static_cast<std::size_t>(index)];
  if (program.part_sums.counts >= 0)
    pass.all[pass.count++] = &program.part_sums.keep_counts[static_cast<std::size_t>(index)];
  return pass;
}

/// Calls `visit(routines, times)` for the routines of each batch of an evaluation, in order.
template <typename Visit>
void for_each_evaluation_routine(const Program& program, const RunSchedule& schedule, Visit&& visit) {
  const auto visit_batches = [&](std::int64_t num_samples, std::int64_t times) {
    std::vector<const Routine*> routines;
    for (std::int64_t i = 0; i < schedule.parts().num_own; ++i) {
      const EvaluationPass pass = evaluation_pass(program, schedule.parts().own(num_samples, i).count, i);
      routines.insert(routines.end(), pass.routines().begin(), pass.routines().end());
    }
    if (times > 0 && !routines.empty()) visit(routines, times);
  };
  visit_batches(schedule.eval_batch_size(), schedule.num_whole_eval_batches());
  visit_batches(schedule.odd_eval_batch_size(), schedule.odd_eval_batch_size() > 0 ? 1 : 0);
  if (!program.agree_evaluation.instructions.empty())
    visit(std::vector<const Routine*>{&program.agree_evaluation}, std::int64_t{1});
}

}  // namespace trainer
