#pragma once

#include <string>

#include "engine/report/bench/bench_findings.h"
#include "engine/train/measure/calibration.h"

namespace trainer {

/// One object without a newline: {"event":"bench", …}; see Note [Machine interface] in event_json.h.
std::string bench_json(const BenchFindings& findings);
std::string calibration_json(const Calibration& calibration, const std::string& device_kind,
                             const std::string& device_name, const std::string& path, double seconds);

}  // namespace trainer
