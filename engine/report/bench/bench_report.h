#pragma once

#include <string>

#include "engine/report/bench/bench_findings.h"
#include "engine/report/text/style.h"
#include "engine/train/measure/calibration.h"

namespace trainer {

/// For people: the step, measured and predicted; where its time goes; by layer; by kind of op.
std::string bench_report(const BenchFindings& findings, const Style& style);

/// What `trainer bench` without a CONFIG measured and where it is stored.
std::string calibration_report(const Calibration& calibration, const std::string& device_name, const std::string& path,
                               double seconds, const Style& style);

}  // namespace trainer
