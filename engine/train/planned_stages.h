#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/device/device.h"
#include "engine/memory/allocator.h"
#include "engine/plan/machine_rates.h"
#include "engine/plan/search/change.h"
#include "engine/train/run_stages.h"
#include "engine/train/running_stage.h"

namespace trainer {

/// Plans the stage under its capacity, and keeps in it what the plan shows. Returns where memory runs out, where it
/// does; nothing too where memory.preflight is off.
std::optional<OutOfMemoryContext> planned_failure(RunningStage& stage);

/// What the stage can go on with where it has `capacity`, by `rates` the fastest (Note [Adapting a run] in
/// engine/train/adaptation.h); nothing where nothing fits, or memory.on_oom is not `adapt`.
std::optional<Change> find_change(const RunningStage& stage, std::int64_t capacity, Device& device,
                                  const MachineRates& rates);

/// A stage that keeps a run from beginning.
struct FailedStage {
  std::unique_ptr<RunningStage> stage;
  OutOfMemoryContext context;
};

/// What plans show of the stages behind the first.
struct LaterStages {
  std::int64_t num_steps = 0;         ///< of those that were planned
  std::optional<FailedStage> failed;  ///< the first that does not fit, behind which none is planned
};

/// Plans the stages behind number `index`, which is `first`, and checks that parameters and the optimizer's state go on
/// into them. `left`: what that leaves in the allocator's cache; null: nothing. Throws ConfigError.
LaterStages plan_later_stages(const RunStages& stages, std::size_t index, const RunningStage& first,
                              std::shared_ptr<const CachedSegments> left, Device& device, const MachineRates& rates);

}  // namespace trainer
