#pragma once

#include "engine/findings/traced_plan.h"
#include "engine/report/page/page_columns.h"

namespace trainer {

/// A plan as a page shows it: the `plan` event without its timeline, sentences about it, what to paste for each of its
/// fixes, and the memory map of its step with the peak, whose columns go to `columns`.
Json page_plan(TracedPlan traced, PageColumns& columns);

}  // namespace trainer
