#include "engine/plan/search/largest_value.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "engine/plan/search/covered_batches.h"

namespace trainer {
namespace {

/// Of Planner::work, for values below the one that bisection finds; some tenths of a second.
constexpr std::int64_t most_work_of_smaller = 800'000;
/// The same where batch sizes are proven, most of which take next to none.
constexpr std::int64_t most_work_of_proof = 40'000'000;
/// No value.
constexpr std::int64_t none = -1;
/// How many values that cannot be are looked at in search of those that can.
constexpr std::int64_t most_impossible = 10'000;

class LargestValueSearch {
 public:
  LargestValueSearch(Planner& planner, const WithValue& with_value, const ValueSearch& search)
      : planner_(planner), with_value_(with_value), search_(search) {}

  LargestValue find() {
    batches_ = CoveredBatches::make(planner_, with_value_, search_.lowest, search_.highest, search_.capacity);
    if (std::optional<LargestValue> found = try_find()) return *found;
    // What was answered quickly cannot be: only whole plans tell.
    batches_.reset();
    answers_.clear();
    has_whole_answer_ = false;
    result_ = {};
    num_impossible_ = 0;
    return *try_find();
  }

 private:
  /// Nothing where the value that was found turns out not to fit when its plan is made.
  std::optional<LargestValue> try_find() {
    const std::optional<std::int64_t> first = next_possible(search_.lowest, search_.highest);
    if (!first) return result_;
    if (answers_.at(*first) == FitAnswer::fits) {
      bisect(*first, search_.highest + 1);
      if (search_.own && *search_.own > *first && *search_.own < *result_.value) look_at(*search_.own);
      if (!batches_ || !prove_below(*first)) look_below(*first);
      const std::optional<Candidate> candidate = with_value_(*result_.value);
      const Verdict verdict =
          candidate ? planner_.plan(candidate->experiment, candidate->data, search_.capacity) : Verdict{};
      if (!verdict.fits && batches_) return std::nullopt;
      result_.peak_reserved = verdict.peak_reserved;
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

  FitAnswer answer(std::int64_t value) {
    if (const auto known = answers_.find(value); known != answers_.end()) return known->second;
    // The first is planned as a whole: whether it can be at all.
    std::optional<FitAnswer> quick;
    if (batches_ && has_whole_answer_) quick = batches_->quick_answer(value);
    const FitAnswer answer = quick ? *quick : planned_answer(value);
    has_whole_answer_ = has_whole_answer_ || (!quick && answer != FitAnswer::cannot_be);
    answers_.emplace(value, answer);
    if (PlanningWatch* const watch = planner_.watch(); watch != nullptr && answer != FitAnswer::cannot_be)
      watch->planned(value, answer == FitAnswer::fits);
    return answer;
  }

  FitAnswer planned_answer(std::int64_t value) {
    const std::optional<Candidate> candidate = with_value_(value);
    return candidate ? planner_.answer(candidate->experiment, candidate->data, search_.capacity) : FitAnswer::cannot_be;
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

  /// By Note [The largest value]: true where all values below the result are known to fit, or as many as there was time
  /// for.
  bool prove_below(std::int64_t first) {
    const std::int64_t work_before = planner_.work();
    const auto has_time = [&] { return planner_.work() - work_before <= most_work_of_proof; };
    while (true) {
      std::int64_t lender = batches_->find_lender(*result_.value).value_or(none);
      if (lender == none) return false;
      result_.known_from = *result_.value;
      result_.num_proven = 0;
      bool is_settled = true;
      std::int64_t room_of_none = std::numeric_limits<std::int64_t>::max();  ///< that no lender was seen to leave
      while (is_settled && result_.known_from > first && has_time()) {
        if (lender == none || result_.known_from - 1 > lender) {
          // Behind a lender that has left too little room for one value, it still has it for others.
          if (is_proven_next()) continue;
          is_settled = plan_next();
          if (lender == none && is_settled) lender = next_lender(first);
          continue;
        }
        const std::int64_t low = batches_->cover_below(lender, first);
        lender = none;
        while (is_settled && lender == none && result_.known_from > low && has_time()) {
          if (is_proven_next()) continue;
          // Perhaps a smaller lender leaves the room that is missing.
          const std::int64_t next = result_.known_from - 1;
          const std::optional<std::int64_t> room =
              answers_.contains(next) ? std::nullopt : batches_->missing_room_behind(next);
          if (room && *room < room_of_none) {
            lender = batches_->find_lender(next, *room).value_or(none);
            if (lender == none) room_of_none = *room;
          }
          if (lender == none) is_settled = plan_next();
        }
        if (is_settled && lender == none) lender = next_lender(first);
      }
      if (is_settled) break;
    }
    result_.planned_from = *result_.value;
    while (result_.planned_from > first && answers_.contains(result_.planned_from - 1)) --result_.planned_from;
    for (std::int64_t* from : {&result_.planned_from, &result_.known_from})
      if (*from == first) *from = search_.lowest;
    return true;
  }

  /// Whether the value below those that are known to fit is one, by the lender that batches are covered below.
  bool is_proven_next() {
    const std::int64_t next = result_.known_from - 1;
    if (answers_.contains(next) || !batches_->covers(next)) return false;
    --result_.known_from;
    ++result_.num_proven;
    return true;
  }

  /// Plans the value below those that are known to fit; false where it does not, and the result is below it then.
  bool plan_next() {
    if (!look_at(result_.known_from - 1)) return false;
    --result_.known_from;
    return true;
  }

  /// The value below those that are known to fit, if it can lend its places.
  std::int64_t next_lender(std::int64_t first) {
    const std::int64_t next = result_.known_from - 1;
    return next >= first && batches_->find_lender(next) == next ? next : none;
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
    result_.known_from = result_.planned_from;
  }

  Planner& planner_;
  const WithValue& with_value_;
  const ValueSearch& search_;
  std::unique_ptr<CoveredBatches> batches_;  ///< null: values are planned alone
  std::map<std::int64_t, FitAnswer> answers_;
  bool has_whole_answer_ = false;
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
