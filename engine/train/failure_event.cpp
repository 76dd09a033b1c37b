#include "engine/train/failure_event.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/config/override_text.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/fixes.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/pipeline/pipeline_steps.h"

namespace trainer {
namespace {

/// The fixes were planned with the batch that `auto` stood for; pasted beside `auto` they would meet another.
void name_batch_size(std::vector<Change>& fixes, const Experiment& given) {
  for (Change& fix : fixes) {
    const bool names_it = std::any_of(fix.set.begin(), fix.set.end(),
                                      [](const std::string& word) { return word.starts_with("train.batch_size="); });
    if (!names_it) fix.set.insert(fix.set.begin(), override_of("train.batch_size", given));
  }
}

}  // namespace

OutOfMemoryEvent failure_event(const RunningStage& stage, OutOfMemoryContext context, std::int64_t capacity,
                               Device& device, const MachineRates& rates) {
  const ParallelConfig& parallel = stage.compiled->experiment.parallel;
  OutOfMemoryEvent event{.context = std::move(context),
                         .fixes = {},
                         .allocator = stage.compiled->experiment.memory.allocator,
                         .allocator_was_chosen = stage.asked.memory.allocator == AllocatorKind::automatic,
                         .planned_does_not_fit_either = false,
                         .outside_allocator = device.outside_allocator(),
                         .other_processes = device.other_processes(),
                         .device_total = device.total_bytes()};
  event.stage = stage.asked.stage;
  event.rank = parallel.rank;
  event.num_ranks = total_ranks(parallel);
  event.num_stages = parallel.pipeline;
  event.pipeline_stage = rank_layout(parallel).stage();
  event.layers = layers_of_stage(stage.compiled->program);
  event.planned_does_not_fit_either =
      event.allocator_was_chosen && event.allocator == AllocatorKind::caching && capacity == stage.capacity;
  // Under less memory than it was chosen for, the allocator is one that another may be better than.
  Experiment failed =
      with_allocator(stage.given, capacity == stage.capacity ? stage.asked.memory.allocator
                                                             : stage.compiled->experiment.memory.allocator);
  failed.parallel.cut = stage.asked.parallel.cut;  // as what is pasted is beside
  const DataDescription& data = stage.data.description;
  Planner planner(device, rates);
  const std::int64_t available =
      memory_for_allocator(device.available_bytes(), stage.given, data, device, /*dataset_is_loaded=*/true);
  Advice advice = find_advice(planner, failed, data, capacity, available);
  std::int64_t held_by_others = 0;
  for (const DeviceProcess& process : event.other_processes) held_by_others += process.num_bytes;
  failed.parallel.cut = stage.given.parallel.cut;
  event.diagnosis = diagnose(device, failed, data, capacity, held_by_others, std::move(advice.not_enough));
  event.fixes = std::move(advice.fixes);
  if (stage.asked.train.batch_size.is_automatic()) name_batch_size(event.fixes, stage.given);
  for (Change& fix : event.fixes) add_prefix(fix.set, stage.asked.override_prefix);
  for (Change& change : event.diagnosis.not_enough) add_prefix(change.set, stage.asked.override_prefix);
  return event;
}

}  // namespace trainer
