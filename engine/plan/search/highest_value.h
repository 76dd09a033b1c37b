#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/plan/search/candidate.h"
#include "engine/plan/search/planner.h"

namespace trainer {

/// What a search for the highest value that fits found, whether or not all below it fit.
struct HighestValue {
  std::optional<std::int64_t> value;  ///< the largest in the range that fits; nothing: none does
  std::int64_t peak_reserved = 0;     ///< its peak
  std::int64_t highest = 0;           ///< the end of the range that was searched
  /// Values below `value` that can be and were seen not to fit, rising: memory does not always grow with it. All of
  /// them where there are few values, else of those directly below and of some further down.
  std::vector<std::int64_t> smaller_that_fail;
  std::int64_t num_planned = 0;  ///< those whose own sizes were walked, be it without compiling them
  /// Values in (value, highest] that were neither planned nor proven not to fit, because they are too many: above 0,
  /// `value` is only the largest that was found.
  std::int64_t num_unknown = 0;
};

// Note [The highest value]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Bisection alone would be wrong: above a value that does not fit there may be one that does (segments are rounded, the
// odd last batch goes, a kernel takes another algorithm). So values are first excluded from above by a bound that is
// monotone (Note [Least memory] in engine/plan/search/least_memory.h), and what is left is planned one by one, from the
// highest down, until one fits. For a batch size that is a few percent of the values, and most of those are refused
// without being compiled (Note [Neighbouring batch sizes] in engine/plan/search/batch_family.h). Where nothing can be
// excluded, as for a stride, all are planned. There is a most of work for that; beyond it the rest is bisected, and the
// result says how many values were left out.

/// The highest value in [lowest, highest] whose experiment fits, exactly that of planning every one of them, also where
/// smaller values do not fit; see Note [The highest value]. What users are told to take is that of
/// engine/plan/search/largest_value.h.
HighestValue find_highest_value(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                std::int64_t highest, std::int64_t capacity);

}  // namespace trainer
