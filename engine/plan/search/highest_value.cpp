#include "engine/plan/search/highest_value.h"

#include <algorithm>

#include "engine/plan/search/batch_family.h"
#include "engine/plan/search/excluded_values.h"

namespace trainer {
namespace {

/// Of the planner's unit; one to four seconds.
constexpr std::int64_t most_work = 10'000'000;
/// What is spent on values below the largest, and how many of its neighbours are looked at in any case.
constexpr std::int64_t most_work_below = 500'000;
constexpr std::int64_t num_neighbours = 8;
/// Families of batch sizes reach down by this part of the highest. Where not so many are alike, none is made.
constexpr std::int64_t part_of_family = 8, least_family = 16;

/// Families of the batch sizes in one range, for one batch size after another, mostly falling.
class BatchFamilies {
 public:
  BatchFamilies(const DeviceModel& device, const WithValue& with_value) : device_(device), with_value_(with_value) {}

  /// One that `value`, which is in the range, belongs to; null where there is none.
  BatchFamily* find(const ValueRange& range, std::int64_t value) {
    if (!range.differ_in_batch_only) return nullptr;
    if (value >= low_ && value <= high_) return family_.get();
    if (family_) work_ += family_->work();
    high_ = value;
    low_ = std::max(range.first, value - std::max(value / part_of_family, least_family));
    while (!(family_ = make()) && high_ - low_ > least_family) low_ = high_ - (high_ - low_) / 2;
    return family_.get();
  }

  std::int64_t work() const { return work_ + (family_ ? family_->work() : 0); }

 private:
  std::unique_ptr<BatchFamily> make() {
    const std::optional<Candidate> low = with_value_(low_), high = with_value_(high_);
    return low && high && low_ < high_ ? BatchFamily::make(*low, *high, device_) : nullptr;
  }

  const DeviceModel& device_;
  const WithValue& with_value_;
  std::int64_t low_ = 0, high_ = -1;
  std::unique_ptr<BatchFamily> family_;  ///< of low_ to high_; null: there is none
  std::int64_t work_ = 0;                ///< of those before it
};

class HighestValueSearch {
 public:
  HighestValueSearch(Planner& planner, const WithValue& with_value, std::int64_t lowest, std::int64_t highest,
                     std::int64_t capacity)
      : planner_(planner),
        with_value_(with_value),
        lowest_(lowest),
        capacity_(capacity),
        families_(planner.device(), with_value) {
    result_.highest = highest;
  }

  HighestValue find() {
    if (lowest_ > result_.highest) return result_;
    ranges_ = exclude_values(planner_.device(), with_value_, lowest_, result_.highest, capacity_);
    find_value();
    if (!result_.value) return result_;
    const std::optional<Candidate> candidate = with_value_(*result_.value);
    result_.peak_reserved = planner_.plan(candidate->experiment, candidate->data, capacity_).peak_reserved;
    look_below();
    return result_;
  }

 private:
  std::int64_t work() const { return planner_.work() + families_.work(); }

  bool fits(std::int64_t value) {
    const bool result = is_fitting(value);
    if (PlanningWatch* const watch = planner_.watch()) watch->planned(value, result);
    return result;
  }

  bool is_fitting(std::int64_t value) {
    const std::optional<Candidate> candidate = with_value_(value);
    if (!candidate) return false;
    ++result_.num_planned;
    const auto range =
        std::find_if(ranges_.begin(), ranges_.end(), [&](const ValueRange& r) { return value <= r.last; });
    BatchFamily* const family = families_.find(*range, value);
    if (family != nullptr && !family->may_fit(*candidate, capacity_)) return false;
    return planner_.fits(candidate->experiment, candidate->data, capacity_);
  }

  void find_value() {
    const std::int64_t work_before = work();
    for (std::size_t r = ranges_.size(); r-- > 0;) {
      const ValueRange& range = ranges_[r];
      for (std::int64_t value = range.excluded_from - 1; value >= range.first; --value) {
        if (work() - work_before > most_work) return bisect(value);
        if (!fits(value)) continue;
        result_.value = value;
        return;
      }
    }
  }

  bool is_excluded(std::int64_t value) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const ValueRange& range) {
      return value >= range.first && value <= range.last && value >= range.excluded_from;
    });
  }

  /// The largest of the values up to `highest`, if all that are smaller fit.
  void bisect(std::int64_t highest) {
    std::int64_t low = lowest_ - 1, high = highest + 1, num_failing = 0;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const bool fits_so = fits(middle);
      num_failing += fits_so || is_excluded(middle) ? 0 : 1;
      (fits_so ? low : high) = middle;
    }
    if (low >= lowest_) result_.value = low;
    for (const ValueRange& range : ranges_)
      result_.num_unknown +=
          std::max<std::int64_t>(std::min(range.excluded_from - 1, highest) - std::max(range.first, low + 1) + 1, 0);
    result_.num_unknown -= num_failing;
  }

  /// Whether memory grows with the value at all.
  void look_below() {
    const std::int64_t work_before = work();
    const auto look_at = [&](std::int64_t value) {
      const std::optional<Candidate> candidate = with_value_(value);
      if (!candidate || fits(value)) return;
      const Verdict verdict = planner_.plan(candidate->experiment, candidate->data, capacity_);
      if (!verdict.problem) result_.smaller_that_fail.push_back(value);
    };
    std::int64_t value = *result_.value - 1;
    for (; value >= lowest_; --value) {
      const bool is_near = *result_.value - value <= num_neighbours && work() - work_before <= most_work;
      if (!is_near && work() - work_before > most_work_below) break;
      look_at(value);
    }
    // Further down at growing distances.
    for (std::int64_t distance = 2; value - distance >= lowest_; distance *= 2) look_at(value - distance);
    std::reverse(result_.smaller_that_fail.begin(), result_.smaller_that_fail.end());
  }

  Planner& planner_;
  const WithValue& with_value_;
  const std::int64_t lowest_, capacity_;
  BatchFamilies families_;
  std::vector<ValueRange> ranges_;
  HighestValue result_;
};

}  // namespace

HighestValue find_highest_value(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                std::int64_t highest, std::int64_t capacity) {
  return HighestValueSearch(planner, with_value, lowest, highest, capacity).find();
}

}  // namespace trainer
