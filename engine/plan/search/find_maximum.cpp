#include "engine/plan/search/find_maximum.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/excluded_values.h"

namespace trainer {
namespace {

/// Where the plan of `candidate` fails under the capacity; nothing where it fits or cannot be planned.
std::optional<OutOfMemoryContext> failure_of(const Planner& planner, const Candidate& candidate,
                                             std::int64_t capacity) {
  try {
    return plan_memory(compile_experiment(candidate.experiment, candidate.data, planner.device(), capacity), capacity)
        .failure;
  } catch (const Error&) {  // the verdict tells it
    return std::nullopt;
  }
}

TooLargeValue describe(Planner& planner, const WithValue& with_value, std::int64_t value, std::int64_t capacity) {
  TooLargeValue result;
  result.value = value;
  const std::optional<Candidate> candidate = with_value(value);
  if (!candidate) {
    result.problem = "a rule of the configuration refuses it";
    return result;
  }
  const Verdict verdict = planner.plan(candidate->experiment, candidate->data, capacity);
  if (verdict.problem) result.problem = verdict.problem->what();
  result.peak_reserved = verdict.peak_reserved;
  if (!verdict.problem) result.failure = failure_of(planner, *candidate, capacity);
  return result;
}

/// From `value`, which does not fit, up to what is proven not to fit either, but no further than sixteen times: larger
/// values may fit again. Of a key of which nothing is proven that is `value` itself.
std::int64_t last_not_excluded(const Planner& planner, const WithValue& with_value, std::int64_t value,
                               std::int64_t largest_allowed, std::int64_t capacity) {
  const std::int64_t far = value > largest_allowed / 16 ? largest_allowed : value * 16;
  std::int64_t last = value;
  bool is_proven = false;
  for (const ValueRange& range : exclude_values(planner.device(), with_value, value, far, capacity)) {
    is_proven = is_proven || range.excluded_from <= range.last;
    if (range.excluded_from > range.first) last = std::max(last, range.excluded_from - 1);
  }
  return is_proven ? last : value;
}

struct RangeEnd {
  std::int64_t last = 0;
  std::optional<std::int64_t> failing;  ///< that was seen not to fit on the way
};

/// Where the search ends: behind the first of lowest, 2 lowest, … that does not fit, or that cannot be where smaller
/// ones fit; else `largest_allowed`.
RangeEnd end_of_range(Planner& planner, const WithValue& with_value, std::int64_t lowest, std::int64_t largest_allowed,
                      std::int64_t capacity) {
  bool one_fits = false;
  for (std::int64_t value = std::max<std::int64_t>(lowest, 1); value < largest_allowed;) {
    const std::optional<Candidate> candidate = with_value(value);
    const bool fits = candidate && planner.fits(candidate->experiment, candidate->data, capacity);
    if (planner.watch() != nullptr) planner.watch()->planned(value, fits);
    if (fits) {
      one_fits = true;
    } else {
      const bool can_be = candidate && !planner.plan(candidate->experiment, candidate->data, capacity).problem;
      if (can_be) return {last_not_excluded(planner, with_value, value, largest_allowed, capacity), value};
      if (one_fits) return {value, std::nullopt};
    }
    value = value > largest_allowed / 2 ? largest_allowed : value * 2;
  }
  return {std::max(largest_allowed, lowest), std::nullopt};
}

}  // namespace

Maximum find_maximum(Planner& planner, const WithValue& with_value, const MaximumSearch& search) {
  Maximum maximum;
  maximum.lowest = search.lowest;
  maximum.capacity = search.capacity;
  const RangeEnd end = search.highest
                           ? RangeEnd{*search.highest, std::nullopt}
                           : end_of_range(planner, with_value, search.lowest, search.largest_allowed, search.capacity);
  maximum.highest = end.last;
  maximum.found = find_largest_value(planner, with_value,
                                     {.lowest = search.lowest,
                                      .highest = end.last,
                                      .capacity = search.capacity,
                                      .own = search.own ? search.own : end.failing});
  std::optional<std::int64_t> next = maximum.found.next;
  // The end of a range that nobody gave was chosen behind what fits.
  const bool may_go_on = !search.highest && maximum.highest < search.largest_allowed;
  if (!next && maximum.found.value && may_go_on) next = maximum.highest + 1;
  if (!maximum.found.value) next = next.value_or(search.lowest);
  if (!next) return maximum;
  const std::int64_t first = maximum.found.value ? *next + 1 : search.lowest;
  maximum.isolated = find_highest_value(planner, with_value, first, maximum.highest, search.capacity);
  TooLargeValue described = describe(planner, with_value, *next, search.capacity);
  // Behind the end of a range that nobody gave it may fit again.
  if (!described.problem.empty() || described.failure) maximum.next = std::move(described);
  return maximum;
}

}  // namespace trainer
