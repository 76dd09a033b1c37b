#pragma once

#include <cstddef>
#include <span>

#include "engine/findings/traced_plan.h"
#include "engine/report/page/page_columns.h"
#include "engine/report/record/run_record.h"

namespace trainer {

/// Of a curve with more points the lowest and highest are kept: thinned_curve.h.
inline constexpr std::size_t most_points_of_curve = 2000;

/// A run as a page shows it: what its events say of the whole, and its curves, whose columns go to `columns`. The plans
/// of its stages, where there are some, tell what was planned for each step. Throws DataError as recorded_ending()
/// does.
Json page_run(const RunRecord& run, std::span<const TracedPlan> plans, PageColumns& columns);

}  // namespace trainer
