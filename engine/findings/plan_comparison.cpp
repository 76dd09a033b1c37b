#include "engine/findings/plan_comparison.h"

#include <algorithm>

namespace trainer {

bool PlanComparison::fits_all() const {
  return std::all_of(targets.begin(), targets.end(), [](const PlannedTarget& target) { return target.fits; });
}

void PlanComparison::sort() {
  std::stable_sort(targets.begin(), targets.end(),
                   [](const PlannedTarget& a, const PlannedTarget& b) { return a.capacity < b.capacity; });
}

}  // namespace trainer
