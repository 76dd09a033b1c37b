#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/plan/search/planner.h"

namespace trainer {

/// An experiment and the data it would train on, which keys of `data` change too.
struct Candidate {
  Experiment experiment;
  DataDescription data;
};

/// The experiment with a value in the place that is searched; nothing where no such experiment is (a rule refuses it).
/// Every key that differs between two values holds the value itself.
using WithValue = std::function<std::optional<Candidate>(std::int64_t value)>;

/// What a search for the largest value that fits found.
struct LargestValue {
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

// Note [The largest value]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Bisection alone would be wrong: above a value that does not fit there may be one that does (segments are rounded, the
// odd last batch goes, a kernel takes another algorithm). So values are first excluded from above by a bound that is
// monotone (Note [Least memory] in engine/plan/search/least_memory.h), and what is left is planned one by one, from the
// highest down, until one fits. For a batch size that is a few percent of the values, and most of those are refused
// without being compiled (Note [Neighbouring batch sizes] in engine/plan/search/batch_family.h). Where nothing can be
// excluded, as for a stride, all are planned. There is a most of work for that; beyond it the rest is bisected, and the
// result says how many values were left out.

/// The largest value in [lowest, highest] whose experiment fits, exactly that of planning every one of them, also where
/// smaller values do not fit; see Note [The largest value].
LargestValue find_largest_value(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                std::int64_t highest, std::int64_t capacity);

/// A value that fits while the next one does not (or is above `highest`), after no more plans than bisection takes: the
/// largest wherever memory grows with the value. Nothing where it found none, which may miss one.
std::optional<std::int64_t> find_value_by_bisection(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                                    std::int64_t highest, std::int64_t capacity);

}  // namespace trainer
