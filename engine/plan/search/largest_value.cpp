#include "engine/plan/search/largest_value.h"

#include <algorithm>
#include <map>

namespace trainer {
namespace {

/// Of Planner::work, for values below the one that bisection finds; some tenths of a second.
constexpr std::int64_t most_work_of_smaller = 800'000;
/// How many values that cannot be are looked at in search of those that can.
constexpr std::int64_t most_impossible = 100'000;

class LargestValueSearch {
 public:
  LargestValueSearch(Planner& planner, const WithValue& with_value, const ValueSearch& search)
      : planner_(planner), with_value_(with_value), search_(search) {}

  LargestValue find() {
    const std::optional<std::int64_t> first = next_possible(search_.lowest, search_.highest);
    if (!first) return result_;
    if (answer(*first) == FitAnswer::fits) {
      bisect(*first, search_.highest + 1);
      if (search_.own && *search_.own > *first && *search_.own < *result_.value) look_at(*search_.own);
      look_below(*first);
      result_.peak_reserved = peak_of(*result_.value);
    } else {
      result_.next = first;
    }
    for (const auto& [value, answer] : answers_) {
      if (answer == FitAnswer::cannot_be) continue;
      ++result_.num_planned;
      if (result_.value && value < *result_.value) ++result_.num_smaller;
    }
    return result_;
  }

 private:
  FitAnswer answer(std::int64_t value) {
    if (const auto known = answers_.find(value); known != answers_.end()) return known->second;
    const std::optional<Candidate> candidate = with_value_(value);
    const FitAnswer answer =
        candidate ? planner_.answer(candidate->experiment, candidate->data, search_.capacity) : FitAnswer::cannot_be;
    answers_.emplace(value, answer);
    if (PlanningWatch* const watch = planner_.watch(); watch != nullptr && answer != FitAnswer::cannot_be)
      watch->planned(value, answer == FitAnswer::fits);
    return answer;
  }

  std::int64_t peak_of(std::int64_t value) {
    const std::optional<Candidate> candidate = with_value_(value);
    return planner_.plan(candidate->experiment, candidate->data, search_.capacity).peak_reserved;
  }

  /// Counts those that cannot be, however often they are asked for.
  bool is_possible(std::int64_t value) {
    if (answer(value) != FitAnswer::cannot_be) return true;
    ++num_impossible_;
    return false;
  }

  /// The first in [first, last] that can be.
  std::optional<std::int64_t> next_possible(std::int64_t first, std::int64_t last) {
    for (std::int64_t value = first; value <= last && num_impossible_ < most_impossible; ++value)
      if (is_possible(value)) return value;
    return std::nullopt;
  }

  std::optional<std::int64_t> previous_possible(std::int64_t first, std::int64_t last) {
    for (std::int64_t value = last; value >= first && num_impossible_ < most_impossible; --value)
      if (is_possible(value)) return value;
    return std::nullopt;
  }

  /// A value that fits while the next one that can be does not; `low` fits, `high` does not or is behind the range.
  void bisect(std::int64_t low, std::int64_t high) {
    result_.next = high <= search_.highest ? std::optional(high) : std::nullopt;
    result_.num_unknown = 0;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      std::optional<std::int64_t> possible = next_possible(middle, high - 1);
      if (!possible) possible = previous_possible(low + 1, middle - 1);
      if (!possible && num_impossible_ >= most_impossible) result_.num_unknown = high - low - 1;
      if (!possible) break;
      if (answer(*possible) == FitAnswer::fits) {
        low = *possible;
      } else {
        high = *possible;
        result_.next = high;
      }
    }
    result_.value = low;
  }

  /// False where `value`, which is below the result, does not fit: the result is below it then.
  bool look_at(std::int64_t value) {
    if (answer(value) != FitAnswer::does_not_fit) return true;
    std::int64_t fitting = search_.lowest;
    for (const auto& [other, answer] : answers_)
      if (other < value && answer == FitAnswer::fits) fitting = other;
    bisect(fitting, value);
    return false;
  }

  void look_below(std::int64_t first) {
    const std::int64_t work_before = planner_.work();
    const auto has_time = [&] { return planner_.work() - work_before <= most_work_of_smaller; };
    for (bool is_settled = false; !is_settled && has_time();) {
      is_settled = true;
      for (std::int64_t distance = 1; *result_.value - distance >= first && has_time() && is_settled; distance *= 2)
        is_settled = look_at(*result_.value - distance);
      result_.planned_from = *result_.value;
      while (is_settled && result_.planned_from > first && has_time()) {
        is_settled = look_at(result_.planned_from - 1);
        --result_.planned_from;
      }
    }
    // What a search before the last one has planned counts.
    result_.planned_from = *result_.value;
    while (result_.planned_from > first && answers_.contains(result_.planned_from - 1)) --result_.planned_from;
    if (result_.planned_from == first) result_.planned_from = search_.lowest;
  }

  Planner& planner_;
  const WithValue& with_value_;
  const ValueSearch& search_;
  std::map<std::int64_t, FitAnswer> answers_;
  std::int64_t num_impossible_ = 0;
  LargestValue result_;
};

}  // namespace

LargestValue find_largest_value(Planner& planner, const WithValue& with_value, const ValueSearch& search) {
  return LargestValueSearch(planner, with_value, search).find();
}

LargestValue find_largest_batch(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                std::int64_t capacity) {
  const WithValue with_batch = [&](std::int64_t batch_size) -> std::optional<Candidate> {
    Candidate candidate{experiment, data};
    candidate.experiment.train.batch_size = batch_size;
    return candidate;
  };
  return find_largest_value(
      planner, with_batch,
      {.highest = data.num_train, .capacity = capacity, .own = experiment.train.batch_size.number()});
}

}  // namespace trainer
