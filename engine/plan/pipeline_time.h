#pragma once

#include <span>
#include <vector>

#include "engine/plan/cost_model.h"
#include "engine/plan/machine_rates.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

// Note [Time of a pipeline]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// Stages of a pipeline wait for each other, so the time of a step is not that of one of them. Their programs are played
// beside each other: a call takes what the cost model says (Note [Cost model] in cost_model.h), a message begins when
// both ends have come to it and what each of them exchanges before is done, and takes the time of their link; one that
// is not started is waited for by both. What stages and ranks tell each other behind the last backward pass is played
// by itself, as if all stages had come to it at once, and two that use one weight wait for each other there too.

/// Of a step of a pipeline.
struct PipelineTime {
  StepTime step;      ///< of the stage that ends last; its waiting counts as communication
  double bubble = 0;  ///< of all stages' time until the last backward, the share in which none computes
  std::vector<double> busy_seconds{};  ///< by stage: that it computes, update and all
};

/// `stages`: the program of a rank of each, of the same place among those that share a batch.
PipelineTime predict_pipeline_time(std::span<const Program* const> stages, const RunSchedule& schedule,
                                   const MachineRates& rates);

}  // namespace trainer
