#include "engine/plan/search/run_fits.h"

#include <algorithm>

#include "engine/memory/rounding.h"
#include "engine/memory/simulated_source.h"
#include "engine/plan/live_buffers.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "engine/program/pipeline/pipeline_steps.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// Every page of an expandable segment is a multiple of this.
constexpr std::int64_t page_unit = std::int64_t{2} << 20;

/// The routines that every run with a step begins with.
std::vector<const Routine*> first_routines(const Program& program, const RunSchedule& schedule) {
  std::vector<const Routine*> routines = {&program.load};
  if (schedule.total_steps() < 1) return routines;
  const RunSchedule::Step step = schedule.step(1);
  if (program.pipeline) {
    for (const PipelineSteps::Entry& entry : pipeline_step(program, step).entries)
      routines.push_back(&program.pipeline->routines[static_cast<std::size_t>(entry.routine)]);
    return routines;
  }
  routines.push_back(&program.micro_batches.front().first);
  if (schedule.is_cut_into_parts()) return routines;  // sums of parts stand in between
  if (step.num_micro_batches - (step.last_is_odd ? 1 : 0) > 1) routines.push_back(&program.micro_batches.front().next);
  return routines;
}

/// The most blocks that the routines hold at once, with or without scratch.
std::int64_t most_live_bytes(const Program& program, const std::vector<const Routine*>& routines, bool with_scratch) {
  std::int64_t live = 0, most = 0;
  for (const Routine* routine : routines) {
    for_each_change(*routine, [&](BufferId buffer, bool is_allocated) {
      if (!with_scratch && program.buffers[buffer].category == Category::workspace) return;
      const std::int64_t bytes = round_to_blocks(program.buffers[buffer].num_bytes);
      live += is_allocated ? bytes : -bytes;
      most = std::max(most, live);
    });
  }
  return most;
}

bool caching_allocator_serves(const Program& program, const std::vector<const Routine*>& routines,
                              std::int64_t capacity, const CachingAllocatorOptions& options) {
  SimulatedSource source(capacity);
  CachingAllocator allocator(source, options);
  LiveBuffers live(program, allocator);
  try {
    for (std::size_t i = 0; i < routines.size(); ++i) {
      if (i <= 1) allocator.begin_layout();  // of loading, and of the first step
      for_each_change(*routines[i], [&](BufferId buffer, bool is_allocated) {
        is_allocated ? live.allocate(buffer) : live.release(buffer);
      });
    }
  } catch (const OutOfMemory&) {
    return false;
  }
  return true;
}

}  // namespace

std::int64_t usable_capacity(const Experiment& experiment, std::int64_t capacity) {
  const bool has_pages = experiment.memory.allocator == AllocatorKind::caching && experiment.memory.expandable_segments;
  return has_pages ? capacity / page_unit * page_unit : capacity;
}

std::int64_t num_instructions_of(const Program& program) {
  std::size_t number = program.load.instructions.size() + program.update.instructions.size();
  for (const Program::MicroBatch& micro_batch : program.micro_batches) {
    number += micro_batch.first.instructions.size() + micro_batch.next.instructions.size();
    for (const Routine& routine : micro_batch.others) number += routine.instructions.size();
  }
  if (program.pipeline)
    for (const PipelineSteps::Step& step : program.pipeline->steps)
      for (const PipelineSteps::Entry& entry : step.entries)
        number += program.pipeline->routines[static_cast<std::size_t>(entry.routine)].instructions.size();
  for (const Routine& routine : program.evaluations) number += routine.instructions.size();
  return static_cast<std::int64_t>(number);
}

bool run_fits(const Experiment& settled, const DataDescription& data, const DeviceModel& device, std::int64_t capacity,
              RecomputeFronts* fronts, std::int64_t& num_instructions, PlacedLayouts placed, bool* is_hopeless) {
  const RunSchedule schedule(settled, data);
  const CachingAllocatorOptions options = allocator_options(settled, placed);
  const auto may_fit = [&](const Program& begun) {
    const std::vector<const Routine*> routines = first_routines(begun, schedule);
    for (const Routine* routine : routines) num_instructions += static_cast<std::int64_t>(routine->instructions.size());
    const std::int64_t usable = usable_capacity(settled, capacity);
    if (most_live_bytes(begun, routines, true) > usable) {
      if (is_hopeless != nullptr) *is_hopeless = most_live_bytes(begun, routines, false) > usable;
      return false;
    }
    // Places are only found for the whole program.
    if (settled.memory.allocator == AllocatorKind::planned || options.may_plan_segment) return true;
    return caching_allocator_serves(begun, routines, capacity, options);
  };
  const std::optional<Program> program = compile_while(settled, data, device, fronts, may_fit);
  if (!program) return false;
  num_instructions += num_instructions_of(*program);
  return plan_peak(*program, schedule, capacity, options).fits;
}

}  // namespace trainer
