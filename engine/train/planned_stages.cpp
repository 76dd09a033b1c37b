#include "engine/train/planned_stages.h"

#include <utility>

#include "engine/errors.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/planner.h"
#include "engine/program/handed_parameters.h"
#include "engine/train/adaptation.h"

namespace trainer {

std::optional<OutOfMemoryContext> planned_failure(RunningStage& stage) {
  if (!stage.compiled->experiment.memory.preflight) return std::nullopt;
  MemoryPlan plan = plan_memory(*stage.compiled, stage.capacity);
  require_internal(plan.fits || plan.failure.has_value(), "a plan that does not fit tells where");
  if (plan.fits) {
    stage.planned_capacity = stage.capacity;
    stage.planned_touched = plan.peak_touched;
    stage.planned_by_category = plan.peak.live.by_category;
    stage.planned_first_placed_step = plan.first_placed_step;
    stage.planned_peak_reserved = plan.peak_reserved;
    stage.planned_left = std::move(plan.left_cached);
    return std::nullopt;
  }
  plan.failure->planned = true;
  return std::move(plan.failure);
}

std::optional<Change> find_change(const RunningStage& stage, std::int64_t capacity, Device& device,
                                  const MachineRates& rates) {
  if (stage.given.memory.on_oom != OnOutOfMemory::adapt || capacity >= stage.planned_capacity) return std::nullopt;
  Planner planner(device, rates);
  Experiment purged = stage.compiled->experiment;  // what has run out of memory goes on without a cache
  purged.memory.kept = nullptr;
  return find_adaptation(planner, purged, stage.data.description, capacity);
}

LaterStages plan_later_stages(const RunStages& stages, std::size_t index, const RunningStage& first,
                              std::shared_ptr<const CachedSegments> left, Device& device, const MachineRates& rates) {
  LaterStages later;
  while (++index <= stages.last()) {
    std::unique_ptr<RunningStage> stage =
        describe_stage(stages, index, device, stages.config(index)->purge ? nullptr : left, /*held=*/0,
                       /*ranks=*/nullptr);  // only those that can train the first plan these
    check_parameters_go_on(first.compiled->program, stage->compiled->program, *stage->config);
    check_state_goes_on(stages.experiment(index - 1), *stage->config);
    later.num_steps += stage->compiled->schedule.total_steps();
    std::optional<OutOfMemoryContext> failure = planned_failure(*stage);
    left = stage->planned_left;
    if (!failure || find_change(*stage, stage->capacity, device, rates)) continue;
    later.failed.emplace(FailedStage{std::move(stage), *std::move(failure)});
    return later;
  }
  return later;
}

}  // namespace trainer
