#include "engine/findings/plan_findings.h"

#include <algorithm>

namespace trainer {

bool PlanVerification::is_equal() const {
  return !lines.empty() &&
         std::all_of(lines.begin(), lines.end(), [](const Line& line) { return line.predicted == line.measured; });
}

}  // namespace trainer
