#pragma once

#include "engine/program/item_places.h"
#include "engine/program/program.h"

namespace trainer {

// Note [Places of buffers]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Which buffers are live at one time follows from the order in which routines may follow each other: `load`; then steps
// of one `first` micro-batch, `next` ones, and `update`; `refresh` and evaluations between steps. A buffer that is live
// at the end of a routine is live at the start of whatever may come after it. So each routine has a stretch of one
// timeline, in which a buffer lives from its allocation to its release, or throughout where it was allocated in a
// routine before and is released in one behind. Buffers that are never live in the same stretch at the same time may
// share their bytes: those of different micro-batches, or of training and evaluation.

/// What needs a place, and when.
struct BufferLifetimes {
  std::vector<BufferId> buffers;   ///< those that a routine allocates, by item
  std::vector<PlacedItem> items;   ///< in whole blocks of 512 bytes
  std::vector<std::int64_t> cuts;  ///< where the stretch of a routine begins
};
BufferLifetimes find_lifetimes(const Program& program);

/// Sets program.placement: a place for each buffer that a routine allocates, which holds in whatever order steps and
/// evaluations follow each other: persistent buffers at the bottom, the others above them. A program of 2^60 bytes and
/// more, which no capacity holds, gets no places but the size of its segment.
void place(Program& program);

/// Places in a segment of their own for all but persistent buffers, as place() finds them, so that this segment and
/// the blocks of persistent buffers together take no less than the segment of place().
Placement place_transient(const Program& program);

}  // namespace trainer
