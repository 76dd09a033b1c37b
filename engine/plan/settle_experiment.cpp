#include "engine/plan/settle_experiment.h"

#include <algorithm>
#include <vector>

#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"

namespace trainer {

Experiment settle_experiment(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                             std::int64_t capacity, RecomputeFronts* shared_fronts) {
  Experiment settled = experiment;
  CheckpointingConfig& checkpointing = settled.train.checkpointing;
  if (checkpointing.type != CheckpointingConfig::Type::automatic) return settled;
  const RunSchedule schedule(experiment, data);
  RecomputeFronts own_fronts;
  RecomputeFronts& fronts = shared_fronts != nullptr ? *shared_fronts : own_fronts;
  const auto fits = [&](std::int64_t budget) {
    checkpointing.budget = budget;
    const Program program = compile(settled, data, device, &fronts);
    return make_memory_plan(program, schedule, capacity, allocator_options(settled)).fits;
  };
  if (fits(0)) return settled;  // no budget is needed, and nothing was searched for
  fits(unlimited_capacity);

  // Only at the peaks of the fronts does another budget make another program.
  std::vector<std::int64_t> budgets;
  for (const auto& [batch_size, front] : fronts)
    for (const RecomputeOrder& order : front) budgets.push_back(order.peak_bytes);
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  std::size_t low = 0;
  std::size_t high = budgets.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (fits(budgets[middle]))
      low = middle + 1;
    else
      high = middle;
  }
  checkpointing.budget = budgets[low == 0 ? 0 : low - 1];
  return settled;
}

}  // namespace trainer
