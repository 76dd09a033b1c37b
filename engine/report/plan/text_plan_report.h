#pragma once

#include <string>

#include "engine/findings/find_text_plan.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What a text takes to be written: who holds what, whether that fits, and what does.
std::string text_plan_report(const TextPlanFindings& findings, const Style& style);

/// Where it does not fit: that, and what would. The last lines of the report above.
std::string text_plan_ending(const TextPlanFindings& findings, const Style& style);

/// {"event": "text_plan", …}
std::string text_plan_json(const TextPlanFindings& findings);

}  // namespace trainer
