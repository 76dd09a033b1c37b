#pragma once

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/plan/allocator_options.h"
#include "engine/program/recompute/searches.h"

namespace trainer {

/// What `auto` stands for under a capacity, found by planning; other experiments are returned as they are.
///
/// train.batch_size: the largest up to which the whole run fits with every one, up to the training set, as
/// find_largest_batch (engine/plan/search/largest_value.h) finds it; 1 where 1 does not fit, so that its plan or run
/// tells why.
///
/// train.checkpointing: the largest budget under which the whole run fits, so that the least is computed again; without
/// a budget where it fits as with `off`, and with the smallest there is where none fits.
///
/// memory.allocator: caching where the run fits with it and no layout has to be placed (Note [Placed layouts] in
/// placed_layouts.h), or with neither; planned, without expandable segments, where it fits with that. Where neither
/// serves, and for `planned`, a larger batch may lend its places: Note [Places of a larger batch] in
/// engine/program/lent_places.h.
///
/// memory.kept, what the stage before has cached: it stays where the run fits beside it with the caching allocator;
/// else null, and everything else is settled as for an empty device.
///
/// Together: the largest batch for which some allocator and budget fit, then the allocator, with its budget.
///
/// `searches` may be shared by all experiments; `placed` is for those that name their allocator: without placed layouts
/// no places are lent either.
Experiment settle_experiment(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                             std::int64_t capacity, RecomputeSearches* searches = nullptr,
                             PlacedLayouts placed = PlacedLayouts::where_needed);

/// Whether a larger batch may lend its places: not under a budget for what is computed again, which is spent anew for
/// each batch size.
bool may_have_lent_places(const Experiment& experiment);

/// The experiment with that allocator; a planned one has no segments that could grow.
Experiment with_allocator(Experiment experiment, AllocatorKind kind);

}  // namespace trainer
