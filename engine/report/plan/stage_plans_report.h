#pragma once

#include <string>

#include "engine/findings/stage_plans.h"
#include "engine/report/text/style.h"

namespace trainer {

/// The stages as a table: what each trains, holds at its peak and takes, what is new in it, and what goes back to the
/// device behind it. Of those that do not fit the whole report follows, of the others how to get it.
std::string stage_plans_report(const StagePlans& plans, const Style& style, bool full = false);

}  // namespace trainer
