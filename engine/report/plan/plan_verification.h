#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/memory_plan.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What a plan said of the first steps against what the device's allocator counted when they were run.
struct PlanVerification {
  struct Line {
    std::int64_t step = 0;  ///< 0: loading
    bool evaluation = false;
    StepMemory predicted, measured;
  };
  std::vector<Line> lines;
  std::int64_t used_before = 0, used_highest = 0;  ///< of the whole process, by the device's own count

  /// How many bytes all the counters of a line are apart, taken together.
  static std::int64_t num_different_bytes(const Line& line);
  bool is_equal() const;
};

/// Predicted against measured, a line for each counter of each step, and the verdict.
std::string verification_report(const PlanVerification& verification, const Style& style);

}  // namespace trainer
