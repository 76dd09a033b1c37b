#pragma once

#include <catch2/catch.hpp>

#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

/// Runs it, and holds every step, evaluation and peak against its plan.
inline void check_plan_equals_run(TestRun& run, Device& device) {
  REQUIRE(run(device) == RunStatus::done);
  const DataDescription& data = run.data.description;
  const Program program = compile(run.experiment, data, device);
  const MemoryPlan plan = make_memory_plan(program, RunSchedule(run.experiment, data), std::int64_t{1} << 30,
                                           allocator_options(run.experiment));
  bool is_equal = plan.fits && !run.events.evaluations.empty();
  for (const StepEvent& event : run.events.steps) {
    const StepMemory* const planned = plan.find(event.step, false);
    is_equal = is_equal && planned != nullptr && *planned == event.memory.step;
    const CheckpointingConfig& checkpointing = run.experiment.train.checkpointing;
    if (checkpointing.type == CheckpointingConfig::Type::budget && planned->peak_allocated > checkpointing.budget)
      CHECK(planned->peak_allocated <= checkpointing.budget);
  }
  for (const EvalEvent& event : run.events.evaluations) {
    const StepMemory* const planned = plan.find(event.step, true);
    is_equal = is_equal && planned != nullptr && *planned == event.memory.step;
  }
  const EndEvent& end = run.events.ends.back();
  is_equal = is_equal && end.peak_allocated == plan.peak_allocated && end.peak_reserved == plan.peak_reserved &&
             end.peak_requested == plan.peak_requested;
  if (!is_equal) CHECK(is_equal);  // a thousand passing assertions are not printed
}

}  // namespace trainer
