#include "engine/plan/search/evaluation_savings.h"

#include "engine/plan/search/settle_experiment.h"

namespace trainer {
namespace {

/// The first steps, or the first evaluation, in which the most is reserved.
const PlannedSteps* first_at_peak(const MemoryPlan& plan) {
  for (const PlannedSteps& steps : plan.steps)
    if (steps.memory.peak_reserved == plan.peak_reserved) return &steps;
  return nullptr;
}

/// A segment that holds every buffer is reserved before those of evaluations are needed, and is larger for them.
bool reaches_peak_before_evaluation(const MemoryPlan& plan) {
  const PlannedSteps* const at_peak = first_at_peak(plan);
  if (plan.first_placed_step >= 0) return false;
  if (at_peak == nullptr || at_peak->first_step == 0 || at_peak->evaluation) return false;
  for (const PlannedSteps& steps : plan.steps)
    if (steps.evaluation) return at_peak->first_step <= steps.first_step;
  return true;
}

}  // namespace

bool evaluation_sets_peak(const MemoryPlan& plan) {
  const PlannedSteps* const at_peak = first_at_peak(plan);
  return plan.peak.phase == Phase::eval || (at_peak != nullptr && at_peak->evaluation);
}

EvaluationSavings find_evaluation_savings(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                          const MemoryPlan& plan, std::int64_t eval_batch_size, std::int64_t capacity) {
  EvaluationSavings savings;
  // A staging buffer, which is there from the beginning, has room for the larger batch of the two.
  const bool stages_more =
      planner.device().copies_ahead() && eval_batch_size > RunSchedule(experiment, data).batch_size();
  if (!stages_more && reaches_peak_before_evaluation(plan)) {
    savings.is_proven_nothing = true;
    return savings;
  }
  Experiment changed = experiment;
  const auto plan_with = [&](std::int64_t size) {
    changed.train.eval_batch_size = size;
    Verdict verdict = planner.plan(changed, data, capacity);
    if (verdict.fits || changed.memory.allocator != AllocatorKind::automatic) return verdict;
    // `plan` is caching's then.
    return planner.plan(with_allocator(changed, AllocatorKind::caching), data, capacity);
  };
  for (std::int64_t size = eval_batch_size / 2; size > 0; size /= 2) {
    const Verdict verdict = plan_with(size);
    if (verdict.problem) break;
    if (verdict.peak_reserved >= (savings.cut ? savings.cut->peak_reserved : plan.peak_reserved)) break;
    savings.cut = {size, verdict.peak_reserved};
  }
  if (savings.cut) return savings;
  const Verdict of_one = plan_with(1);
  savings.of_one_are_nothing = !of_one.problem && of_one.peak_reserved >= plan.peak_reserved;
  if (!of_one.problem && !savings.of_one_are_nothing) savings.cut = {1, of_one.peak_reserved};
  return savings;
}

}  // namespace trainer
