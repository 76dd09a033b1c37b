#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/plan/out_of_memory_context.h"
#include "engine/plan/search/highest_value.h"
#include "engine/plan/search/largest_value.h"

namespace trainer {

/// Where the first value that is too large would fail.
struct TooLargeValue {
  std::int64_t value = 0;
  std::int64_t peak_reserved = 0;             ///< without a bound
  std::string problem;                        ///< why there is no such experiment; empty: memory is what it lacks
  std::optional<OutOfMemoryContext> failure;  ///< where its plan fails
};

/// The largest value of a key that fits.
struct Maximum {
  std::string key;
  std::int64_t lowest = 0, highest = 0;  ///< of the range that was searched
  /// `highest` is the number of training samples, and `key` a batch size, which may be set higher but has no effect.
  bool ends_at_data = false;
  std::int64_t capacity = 0;
  LargestValue found;
  /// Above the first that does not fit: a value that fits for itself, where there is one.
  HighestValue isolated;
  /// The next value: the lowest where that does not fit; nothing where the largest of the range fits.
  std::optional<TooLargeValue> next;

  /// What to take: where the lowest does not fit, as where memory falls with the value, the isolated one.
  std::optional<std::int64_t> value() const { return found.value ? found.value : isolated.value; }
  std::int64_t peak_reserved() const { return found.value ? found.peak_reserved : isolated.peak_reserved; }
};

/// What `--max` is asked for.
struct MaximumSearch {
  std::int64_t lowest = 1;
  /// Without it the range ends behind the first doubled value that does not fit or cannot be: where the rest is proven
  /// not to fit, at most at sixteen times that value and at `largest_allowed`.
  std::optional<std::int64_t> highest{};
  std::int64_t largest_allowed = 1;
  std::int64_t capacity = 0;
  std::optional<std::int64_t> own{};  ///< ValueSearch::own
};

Maximum find_maximum(Planner& planner, const WithValue& with_value, const MaximumSearch& search);

}  // namespace trainer
