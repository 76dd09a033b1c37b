#pragma once

#include <string>
#include <vector>

#include "engine/report/plan/comparison_report.h"
#include "engine/report/plan/plan_report.h"
#include "engine/report/plan/stage_plans_report.h"

namespace trainer {

/// The `plan` event (Note [Machine interface] in engine/report/run/event_json.h). `steps` is a run-length list: an
/// entry stands for `count` steps alike, from `first_step` on (0: loading), or for the evaluation after a step. `cycle`
/// says which of them the rest of the run repeats (see MemoryPlan). `timeline` is the step with the peak, a point for
/// each allocation and release.
std::string plan_json(const PlanFindings& findings);

/// The `plan` event of an experiment with stages: that of the stage which reserves most, and in `stages` those of all.
std::string stage_plans_json(const StagePlans& plans);

/// The `plans` event: the plan of one experiment on several targets.
std::string comparison_json(const PlanComparison& comparison);

}  // namespace trainer
