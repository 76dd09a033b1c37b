#pragma once

#include <cstdint>

#include "engine/findings/traced_plan.h"
#include "engine/report/trace/trace_event_writer.h"

namespace trainer {

/// Writes the step of a plan that holds the peak, as one group beginning at `offset` nanoseconds: its ops by phase and
/// layer with predicted durations, what is allocated by category (a value after each allocation and release, as the
/// plan's timeline has them), reserved and the capacity, and the lives of the `most_buffers` largest buffers by layer.
void write_plan_events(const TracedPlan& plan, int group, std::int64_t offset, std::int64_t most_buffers,
                       TraceEventWriter& events);

}  // namespace trainer
