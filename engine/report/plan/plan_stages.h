#pragma once

#include <string>

#include "engine/report/plan/plan_report.h"

namespace trainer {

/// The stages of the run as a table, then sentences: what differs between the first step and the steady one and why,
/// and whether training or evaluation sets the peak.
std::string stages_report(const PlanFindings& findings, const Style& style);

}  // namespace trainer
