#include "engine/plan/largest_value.h"

namespace trainer {

LargestValue find_largest_value(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                std::int64_t highest, std::int64_t capacity) {
  LargestValue result;
  result.highest = highest;
  for (std::int64_t value = highest; value >= lowest && !result.value; --value) {
    const std::optional<Candidate> candidate = with_value(value);
    if (!candidate) continue;
    ++result.num_planned;
    const Verdict verdict = planner.plan(candidate->experiment, candidate->data, capacity);
    if (!verdict.fits) continue;
    result.value = value;
    result.peak_reserved = verdict.peak_reserved;
  }
  return result;
}

}  // namespace trainer
