#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/findings/plan_target.h"

namespace trainer {

/// The experiment, where it is a stage that is not purged (`purge: false`) with what the plans of the stages before it
/// leave cached on the target (MemoryConfig::kept), unless it has that already. Where one of these does not fit nothing
/// is known of what it leaves, and nothing is kept. Throws as compile_experiment.
Experiment with_kept_segments(const Experiment& experiment, const PlanTarget& target);

}  // namespace trainer
