#pragma once

#include <string>

#include "engine/findings/plan_comparison.h"
#include "engine/report/text/style.h"

namespace trainer {

std::string comparison_report(const PlanComparison& comparison, const Style& style);

}  // namespace trainer
