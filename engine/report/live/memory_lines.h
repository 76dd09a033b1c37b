#pragma once

#include <string>
#include <vector>

#include "engine/report/live/frame.h"
#include "engine/report/live/live_run.h"

namespace trainer {

// Note [Memory of a running run]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Steps tell sums: allocated, reserved, used. What they are made of, by category, is told by the plan, whose peak is
// the run's to the byte (planned_by_category of the event `start`, or `stage`), and once it has ended by the event
// `end`. Of runs of a trainer that did not tell it, bars have no categories.

/// The memory of the run at its peak as a bar against its capacity, of which each category has its letters (Note
/// [Memory chart] in engine/report/memory/memory_chart.h); a bar of the peak alone, which says so, where that is so
/// little of the capacity that nothing would be seen. What is reserved beyond what is allocated is drawn lightly.
FrameLine memory_bar(const LiveRun& run, bool ascii, std::size_t columns);

/// What the letters stand for, largest first, in at most `rows` lines.
std::vector<FrameLine> memory_legend(const LiveRun& run, bool ascii, std::size_t columns, std::size_t rows);

/// Allocated, reserved and used, with their peaks.
FrameLine memory_figures(const LiveRun& run, bool ascii, std::size_t columns);

/// The most that each stretch of steps had allocated, from zero upwards, in a line; empty where there are no steps.
std::vector<FrameLine> memory_sparkline(const LiveRun& run, bool ascii, std::size_t columns);

/// A table of categories with bars, then a chart of the memory over steps: `rows` lines.
std::vector<FrameLine> memory_view(const LiveRun& run, bool ascii, std::size_t columns, std::size_t rows);

}  // namespace trainer
