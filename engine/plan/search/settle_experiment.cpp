#include "engine/plan/search/settle_experiment.h"

#include <algorithm>
#include <vector>

#include "engine/memory/cached_segments.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/largest_value.h"
#include "engine/plan/search/run_fits.h"
#include "engine/program/compile.h"
#include "engine/program/lent_places.h"

namespace trainer {
namespace {

void settle_batch_size(Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                       std::int64_t capacity) {
  const MachineRates rates = assumed_cpu_rates(1);  // nobody asks for times
  Planner planner(device, rates);
  const LargestValue found = find_largest_batch(planner, experiment, data, capacity);
  experiment.train.batch_size = found.value ? *found.value : found.next.value_or(1);
}

void settle_checkpointing(Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                          std::int64_t capacity, RecomputeSearches* searches, PlacedLayouts placed) {
  CheckpointingConfig& checkpointing = experiment.train.checkpointing;
  RecomputeFronts fronts{.by_batch_size = {}, .searches = searches};
  std::int64_t num_instructions = 0;
  const auto fits = [&](std::int64_t budget) {
    checkpointing.budget = budget;
    return run_fits(experiment, data, device, capacity, &fronts, num_instructions, placed);
  };
  if (fits(0)) return;  // no budget is needed, and nothing was searched for
  checkpointing.budget = unlimited_capacity;
  compile(experiment, data, device, &fronts);

  // Only at the peaks of the fronts does another budget make another program.
  std::vector<std::int64_t> budgets;
  for (const auto& [batch_size, front] : fronts.by_batch_size)
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
}

bool searches_budget(const Experiment& experiment) {
  return experiment.train.checkpointing.type == CheckpointingConfig::Type::automatic;
}

bool has_budget(const Experiment& settled) {
  return searches_budget(settled) && settled.train.checkpointing.budget > 0;
}

/// Caching where the run fits with it and no layout has to be placed, or with neither; with the budget of
/// checkpointing: auto for that allocator. Where caching only fits with a budget, planned if it fits: it has the least
/// to compute again.
Experiment with_settled_allocator(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                                  std::int64_t capacity, RecomputeSearches* searches_of_all) {
  RecomputeFronts fronts{.by_batch_size = {}, .searches = searches_of_all};
  std::int64_t num_instructions = 0;
  Experiment caching = with_allocator(experiment, AllocatorKind::caching);
  bool is_hopeless = false;
  for (const AllocatorKind kind : {AllocatorKind::caching, AllocatorKind::planned}) {
    Experiment settled = with_allocator(experiment, kind);
    if (searches_budget(settled))
      settle_checkpointing(settled, data, device, capacity, searches_of_all, PlacedLayouts::never);
    const bool may_be_bettered = kind == AllocatorKind::caching && has_budget(settled);
    fronts.by_batch_size.clear();
    is_hopeless = false;
    if (!may_be_bettered &&
        run_fits(settled, data, device, capacity, &fronts, num_instructions, PlacedLayouts::never, &is_hopeless))
      return settled;
    if (kind == AllocatorKind::caching) caching = std::move(settled);
  }
  if (is_hopeless || !may_have_lent_places(experiment)) return caching;
  Experiment planned = with_allocator(experiment, AllocatorKind::planned);
  const std::optional<LentPlaces> places = find_lent_places(planned, data, device, capacity, num_instructions);
  if (!places) return caching;
  planned.memory.places = *places;
  return planned;
}

/// With places that a larger batch lends, where its own do not fit.
void settle_places(Experiment& planned, const DataDescription& data, const DeviceModel& device, std::int64_t capacity) {
  std::int64_t num_instructions = 0;
  bool is_hopeless = false;
  if (run_fits(planned, data, device, capacity, nullptr, num_instructions, PlacedLayouts::never, &is_hopeless)) return;
  if (is_hopeless) return;
  if (const auto places = find_lent_places(planned, data, device, capacity, num_instructions))
    planned.memory.places = *places;
}

}  // namespace

bool may_have_lent_places(const Experiment& experiment) {
  using Type = CheckpointingConfig::Type;
  const AllocatorKind allocator = experiment.memory.allocator;
  const Type checkpointing = experiment.train.checkpointing.type;
  return (allocator == AllocatorKind::planned || allocator == AllocatorKind::automatic) &&
         checkpointing != Type::budget && checkpointing != Type::automatic && !is_pipelined(experiment.parallel);
}

Experiment with_allocator(Experiment experiment, AllocatorKind kind) {
  experiment.memory.allocator = kind;
  experiment.memory.places = {};
  if (kind == AllocatorKind::planned) experiment.memory.expandable_segments = false;
  return experiment;
}

namespace {

/// With what the stage before has cached where the run fits beside it; else as one that begins with an empty device.
Experiment with_settled_cache(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                              std::int64_t capacity, RecomputeSearches* searches, PlacedLayouts placed) {
  Experiment purged = experiment;
  purged.memory.kept = nullptr;
  purged = settle_experiment(purged, data, device, capacity, searches, placed);
  if (purged.memory.allocator != AllocatorKind::caching || experiment.memory.kept->num_bytes() > capacity)
    return purged;
  Experiment keeping = purged;
  keeping.memory.kept = experiment.memory.kept;
  RecomputeFronts fronts{.by_batch_size = {}, .searches = searches};
  std::int64_t num_instructions = 0;
  return run_fits(keeping, data, device, capacity, &fronts, num_instructions, placed) ? keeping : purged;
}

}  // namespace

Experiment settle_experiment(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                             std::int64_t capacity, RecomputeSearches* searches_of_all, PlacedLayouts placed) {
  if (experiment.memory.kept) return with_settled_cache(experiment, data, device, capacity, searches_of_all, placed);
  Experiment settled = experiment;
  if (settled.train.batch_size.is_automatic()) settle_batch_size(settled, data, device, capacity);
  if (settled.memory.allocator == AllocatorKind::automatic)
    return with_settled_allocator(settled, data, device, capacity, searches_of_all);
  if (searches_budget(settled)) settle_checkpointing(settled, data, device, capacity, searches_of_all, placed);
  const bool may_place = placed != PlacedLayouts::never && settled.memory.places.batch_size == 0;
  if (settled.memory.allocator == AllocatorKind::planned && may_place && may_have_lent_places(settled))
    settle_places(settled, data, device, capacity);
  return settled;
}

}  // namespace trainer
