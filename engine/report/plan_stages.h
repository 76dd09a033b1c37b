#pragma once

#include <string>

#include "engine/report/plan_report.h"

namespace trainer {

/// Whether evaluation, and not training, allocates or reserves the most.
bool evaluation_sets_peak(const MemoryPlan& plan);

/// The stages of the run as a table, then sentences: what differs between the first step and the steady one and why,
/// and whether training or evaluation sets the peak.
std::string stages_report(const PlanFindings& findings, const Style& style);

}  // namespace trainer
