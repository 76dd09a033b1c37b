#pragma once

#include "engine/findings/traced_plan.h"
#include "engine/report/page/page_columns.h"

namespace trainer {

/// A plan as a page shows it: the `plan` event without its timeline, sentences about it, what to paste for each of its
/// fixes, and the memory map of its step with the peak, whose columns go to `columns`. `is_of_run`: it was made again
/// of what a run told, so that nothing is to be pasted.
Json page_plan(TracedPlan traced, bool is_of_run, PageColumns& columns);

}  // namespace trainer
