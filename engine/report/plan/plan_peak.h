#pragma once

#include <string>

#include "engine/report/plan/plan_report.h"

namespace trainer {

/// Where the peak lies and why: which op is about to run, what it needs, what is kept and from which layers, and what
/// is there anyway.
std::string peak_explanation(const PlanPeak& peak);

/// The explanation, the chart of the step, and who holds the memory at the peak.
std::string peak_report(const PlanFindings& findings, const Style& style);

}  // namespace trainer
