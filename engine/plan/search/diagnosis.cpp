#include "engine/plan/search/diagnosis.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

void fill_peaks(Diagnosis& diagnosis, const Program& program, const MemoryPlan& plan) {
  diagnosis.peak_requested = plan.peak_requested;
  diagnosis.peak_reserved = plan.peak_reserved;
  for (const PlannedSteps& steps : plan.steps) {
    if (steps.first_step == 0) {
      diagnosis.persistent = steps.memory.allocated;
      continue;
    }
    if (steps.evaluation)
      diagnosis.evaluation_requested = std::max(diagnosis.evaluation_requested, steps.memory.peak_requested);
    std::int64_t& peak = steps.evaluation ? diagnosis.evaluation_peak : diagnosis.training_peak;
    peak = std::max(peak, steps.memory.peak_reserved);
  }
  for_each_change(program.load, [&](BufferId id, bool is_allocated) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.category == Category::input) return;
    diagnosis.persistent_requested += is_allocated ? buffer.num_bytes : -buffer.num_bytes;
  });
  const auto largest = std::max_element(program.buffers.begin(), program.buffers.end(),
                                        [](const Buffer& a, const Buffer& b) { return a.num_bytes < b.num_bytes; });
  if (largest == program.buffers.end()) return;
  diagnosis.largest_buffer = largest->name;
  diagnosis.largest_layer = program.layer_label(largest->layer);
  diagnosis.largest_bytes = largest->num_bytes;
}

}  // namespace

Diagnosis diagnose(const DeviceModel& device, const Experiment& experiment, const DataDescription& data,
                   std::int64_t capacity, std::int64_t held_by_others, std::vector<Change> not_enough) {
  Diagnosis diagnosis;
  diagnosis.capacity = capacity;
  diagnosis.held_by_others = held_by_others;
  diagnosis.not_enough = std::move(not_enough);
  try {
    const CompiledExperiment compiled = compile_experiment(experiment, data, device, capacity);
    fill_peaks(diagnosis, compiled.program, plan_memory(compiled, unlimited_capacity));
    diagnosis.is_known = true;
    const MachineRates rates = assumed_cpu_rates(1);  // nobody asks for times
    Planner planner(device, rates);
    if (diagnosis.is_fragmentation()) {
      const Verdict verdict = planner.plan(with_allocator(experiment, AllocatorKind::planned), data, capacity);
      if (!verdict.problem) diagnosis.placed_peak = verdict.peak_reserved;
    }
    if (held_by_others > 0) {
      const std::int64_t most = std::max(experiment.memory.limit.value_or(unlimited_capacity), capacity);
      diagnosis.fits_without_others = planner.fits(experiment, data, std::min(capacity + held_by_others, most));
    }
  } catch (const Error&) {
    // What cannot be planned has no peaks; the caller tells why it failed.
    diagnosis.is_known = false;
  }
  return diagnosis;
}

}  // namespace trainer
