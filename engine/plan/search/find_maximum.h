#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/plan/out_of_memory_context.h"
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
  std::int64_t lowest = 0;  ///< of the range that was searched; its end is found.highest
  std::int64_t capacity = 0;
  LargestValue found;
  /// The next value: the lowest where none fits; nothing where the largest of the range fits.
  std::optional<TooLargeValue> next;
};

/// Searches [lowest, highest] for the largest value with which the experiment fits. Without `highest` the range ends
/// behind the first doubled value that does not fit or cannot be: where the rest is proven not to fit, at most at
/// sixteen times that value and at `largest_allowed`.
Maximum find_maximum(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                     std::optional<std::int64_t> highest, std::int64_t largest_allowed, std::int64_t capacity);

}  // namespace trainer
