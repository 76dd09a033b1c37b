#pragma once

#include <cstdint>
#include <optional>

#include "engine/plan/search/candidate.h"
#include "engine/plan/search/planner.h"

namespace trainer {

/// Where the largest value that fits is sought.
struct ValueSearch {
  std::int64_t lowest = 1, highest = 1;
  std::int64_t capacity = 0;
  /// A value that is planned where it is below the one that is found: what the experiment has now. One answer for one
  /// question needs it, since somebody may have seen that it does not fit.
  std::optional<std::int64_t> own{};
};

/// The largest value with which, and with every smaller one, the experiment fits.
struct LargestValue {
  std::optional<std::int64_t> value;  ///< nothing: the lowest does not fit
  std::int64_t peak_reserved = 0;     ///< its peak
  /// The smallest value above it that was seen not to fit; nothing: `value` is the highest there is.
  std::optional<std::int64_t> next;
  std::int64_t planned_from = 0;  ///< every value from here to `value` was planned
  std::int64_t known_from = 0;    ///< every value from here to `value` is known to fit, planned or proven
  std::int64_t num_proven = 0;    ///< values below `value` that were not planned and are proven to fit
  std::int64_t num_smaller = 0;   ///< values below `value` that were planned; all of them fit
  std::int64_t num_planned = 0;   ///< values that were planned
  std::int64_t num_unknown = 0;   ///< between `value` and `next`: too many cannot be for all to be looked at
};

// Note [The largest value]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Memory mostly grows with a value, but not always: segments are rounded, the odd last batch goes, a kernel takes
// another algorithm. Somebody who hears that 3,026 is the largest batch that fits takes 3,000, and must not fail there.
// So the answer everywhere (plan, plan for several devices, fit, the report of an out-of-memory, auto) is the largest
// value up to which everything fits: what bisection over the whole range finds, then values below it, from it downwards
// and at growing distances, until there are none or a most of work is spent; where one does not fit the search goes on
// below that. What the work did not reach is told.
//
// Of a batch size the answer is proven where a larger one may lend its places (Note [Places of a larger batch] in
// engine/program/lent_places.h), as on CUDA devices, be they described: then every smaller one fits. Let H be the
// largest batch size whose program has places, with room for any scratch, within the capacity. A batch size b below H
// fits, by that rule, if all that H's program holds is enough for b's. That is so if
//
// - the two have the same instructions. They have for all b from L to H if they have for L and H, by what Note
//   [Neighbouring batch sizes] (batch_family.h) says of the five places where sizes decide, where what is computed
//   again and statistics of convolutions are looked at for each b;
// - each buffer of b is no larger than its counterpart: its size is fixed, or a multiple of the batch size;
// - scratch has room: that of convolutions is at most their limit, and that of attention its limit or what own kernels
//   need, whichever is more, which H has room for; that of all other ops is a rule, which is computed for each b, and
//   where it is more than at H it must fit behind all other places;
// - the odd last batch of an epoch and the batches of an evaluation, which are smaller, are covered in the same way.
//
// So all b in [L, H] are proven without a question to a library, and those below L from their own largest, L - 1. Where
// one of them needs more room behind all places than H leaves, those below it are proven from a smaller H that leaves
// it. Between H and the largest value that fits lie few, since room for any scratch is at most a hundred MiB: they are
// planned, as are those that no H covers. One thing is taken on trust: that for the convolutions of values that
// are not planned, too, something serves them within memory.workspace_limit, as for those that are. A plan of one of
// them would tell if not.
//
// A higher value that fits for itself is another question
// (engine/plan/search/highest_value.h).
//
// Values that cannot be (a rule refuses them, shapes do not divide) are neither fitting nor failing; but one of which
// already a part does not fit fails, whether the rest of it can be or not.

/// The same for the same experiment, device and search, whoever asks, but for what a planner that was asked much before
/// has time to look at below. Throws PlanningInterrupted.
LargestValue find_largest_value(Planner& planner, const WithValue& with_value, const ValueSearch& search);

/// Of train.batch_size, up to the training set; ValueSearch::own is the experiment's, where it is a number.
LargestValue find_largest_batch(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                std::int64_t capacity);

}  // namespace trainer
