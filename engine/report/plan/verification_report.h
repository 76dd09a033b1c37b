#pragma once

#include <cstdint>
#include <string>

#include "engine/findings/plan_findings.h"
#include "engine/report/text/style.h"

namespace trainer {

/// How many bytes all the counters of a line are apart, taken together.
std::int64_t num_different_bytes(const PlanVerification::Line& line);

/// Predicted against measured, a line for each counter of each step, and the verdict.
std::string verification_report(const PlanVerification& verification, const Style& style);

}  // namespace trainer
