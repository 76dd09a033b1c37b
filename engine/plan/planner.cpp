#include "engine/plan/planner.h"

#include "engine/errors.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/settle_experiment.h"
#include "engine/program/compile.h"

namespace trainer {

Verdict Planner::plan(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
  Verdict verdict;
  const auto try_plan = [&] {
    const Experiment settled = settle_experiment(experiment, data, device_, capacity);
    const RunSchedule schedule(settled, data);
    const Program program = compile(settled, data, device_);
    const MemoryPlan plan = make_memory_plan(program, schedule, capacity, allocator_options(settled));
    verdict.fits = plan.fits;
    verdict.peak_reserved =
        plan.fits ? plan.peak_reserved
                  : make_memory_plan(program, schedule, unlimited_capacity, allocator_options(settled)).peak_reserved;
    verdict.time = predict_step_time(program, schedule, rates_);
    verdict.samples_per_step = schedule.step(1).num_samples;
  };
  try {
    try_plan();
  } catch (const ConfigError& error) {
    verdict.problem = error.what();
  } catch (const DataError& error) {
    verdict.problem = error.what();
  } catch (const DeviceError& error) {
    verdict.problem = error.what();
  }
  return verdict;
}

bool Planner::fits(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
  return plan(experiment, data, capacity).fits;
}

}  // namespace trainer
