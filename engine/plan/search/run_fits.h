#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/plan/allocator_options.h"
#include "engine/program/program.h"
#include "engine/program/recompute/recompute.h"

namespace trainer {

/// Whether the whole run of a settled experiment fits: the same as make_memory_plan(…).fits, but false as soon as the
/// first step is known not to fit, before the rest is compiled. Adds to `num_instructions` those that were compiled and
/// walked, a measure of work that is the same on every machine. `is_hopeless`, where given, becomes true where the
/// first step would not fit without any scratch. Throws what compile throws.
bool run_fits(const Experiment& settled, const DataDescription& data, const DeviceModel& device, std::int64_t capacity,
              RecomputeFronts* fronts, std::int64_t& num_instructions,
              PlacedLayouts placed = PlacedLayouts::where_needed, bool* is_hopeless = nullptr);

std::int64_t num_instructions_of(const Program& program);

/// What an allocator of this experiment can have of the capacity: whole pages where it has expandable segments.
std::int64_t usable_capacity(const Experiment& experiment, std::int64_t capacity);

}  // namespace trainer
