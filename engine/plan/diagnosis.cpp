#include "engine/plan/diagnosis.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/settle_experiment.h"
#include "engine/program/compile.h"

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
    std::int64_t& peak = steps.evaluation ? diagnosis.evaluation_peak : diagnosis.training_peak;
    peak = std::max(peak, steps.memory.peak_reserved);
  }
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
    const Experiment settled = settle_experiment(experiment, data, device, capacity);
    const Program program = compile(settled, data, device);
    fill_peaks(diagnosis, program,
               make_memory_plan(program, RunSchedule(settled, data), unlimited_capacity, allocator_options(settled)));
    diagnosis.is_known = true;
  } catch (const Error&) {
    // What cannot be planned has no peaks; the caller tells why it failed.
    diagnosis.is_known = false;
  }
  return diagnosis;
}

}  // namespace trainer
