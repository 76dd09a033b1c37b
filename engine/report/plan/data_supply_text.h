#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/findings/plan_findings.h"
#include "engine/report/text/style.h"

namespace trainer {

/// How fast the data is prepared against what the steps need, and what to change where that is too slow; of image files
/// that were not measured how to measure them; else empty.
std::string data_supply_text(const PlanFindings& findings, const Style& style);

/// The same of what was measured as fields.
nlohmann::ordered_json data_supply_json(const DataSupply& supply);

}  // namespace trainer
