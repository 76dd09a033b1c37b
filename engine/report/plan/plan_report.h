#pragma once

#include <string>

#include "engine/findings/plan_findings.h"
#include "engine/report/text/style.h"

namespace trainer {

/// The plan for people: the device; verdict and margin; what lies outside the allocator; the predicted time and whether
/// the data keeps up with it; the stages of the run and how they differ; where the peak lies, why, and who holds it;
/// the chart; what was measured. Where it does not fit, it ends with how much is missing, what to change (the first
/// three, or with `full` all) and a command.
std::string plan_report(const PlanFindings& findings, const Style& style, bool full = false);

}  // namespace trainer
