#include "engine/plan/largest_value.h"

#include <algorithm>

#include "engine/plan/excluded_values.h"

namespace trainer {
namespace {

/// Of the planner's unit; one to three seconds.
constexpr std::int64_t most_work = 8'000'000;
/// What is spent on values below the largest, and how many of its neighbours are looked at in any case.
constexpr std::int64_t most_work_below = 500'000;
constexpr std::int64_t num_neighbours = 8;

class LargestValueSearch {
 public:
  LargestValueSearch(Planner& planner, const WithValue& with_value, std::int64_t lowest, std::int64_t highest,
                     std::int64_t capacity)
      : planner_(planner), with_value_(with_value), lowest_(lowest), capacity_(capacity) {
    result_.highest = highest;
  }

  LargestValue find(bool looks_below) {
    if (lowest_ > result_.highest) return result_;
    find_value(exclude_values(planner_.device(), with_value_, lowest_, result_.highest, capacity_));
    if (!result_.value) return result_;
    const std::optional<Candidate> candidate = with_value_(*result_.value);
    result_.peak_reserved = planner_.plan(candidate->experiment, candidate->data, capacity_).peak_reserved;
    if (looks_below) look_below();
    return result_;
  }

 private:
  bool fits(std::int64_t value) {
    const std::optional<Candidate> candidate = with_value_(value);
    if (!candidate) return false;
    ++result_.num_planned;
    return planner_.fits(candidate->experiment, candidate->data, capacity_);
  }

  void find_value(const std::vector<ValueRange>& ranges) {
    const std::int64_t work_before = planner_.work();
    for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
      for (std::int64_t value = range->excluded_from - 1; value >= range->first; --value) {
        if (planner_.work() - work_before > most_work) return bisect(ranges, value);
        if (!fits(value)) continue;
        result_.value = value;
        return;
      }
    }
  }

  /// The largest of the values up to `highest`, if all that are smaller fit.
  void bisect(const std::vector<ValueRange>& ranges, std::int64_t highest) {
    std::int64_t low = lowest_ - 1, high = highest + 1, num_failing = 0;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const bool is_fitting = fits(middle);
      num_failing += is_fitting ? 0 : 1;
      (is_fitting ? low : high) = middle;
    }
    if (low >= lowest_) result_.value = low;
    for (const ValueRange& range : ranges)
      result_.num_unknown +=
          std::max<std::int64_t>(std::min(range.excluded_from - 1, highest) - std::max(range.first, low + 1) + 1, 0);
    // Those in an excluded range were known before.
    result_.num_unknown = std::max<std::int64_t>(result_.num_unknown - num_failing, 0);
  }

  /// Whether memory grows with the value at all.
  void look_below() {
    const std::int64_t work_before = planner_.work();
    const auto look_at = [&](std::int64_t value) {
      if (with_value_(value) && !fits(value)) result_.smaller_that_fail.push_back(value);
    };
    std::int64_t value = *result_.value - 1;
    for (; value >= lowest_; --value) {
      const bool is_near = *result_.value - value <= num_neighbours && planner_.work() - work_before <= most_work;
      if (!is_near && planner_.work() - work_before > most_work_below) break;
      look_at(value);
    }
    // Further down at growing distances.
    for (std::int64_t distance = 2; value - distance >= lowest_; distance *= 2) look_at(value - distance);
    std::reverse(result_.smaller_that_fail.begin(), result_.smaller_that_fail.end());
  }

  Planner& planner_;
  const WithValue& with_value_;
  const std::int64_t lowest_, capacity_;
  LargestValue result_;
};

}  // namespace

LargestValue find_largest_value(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                std::int64_t highest, std::int64_t capacity, bool looks_below) {
  return LargestValueSearch(planner, with_value, lowest, highest, capacity).find(looks_below);
}

}  // namespace trainer
