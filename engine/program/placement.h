#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/program.h"

namespace trainer {

/// From `begin` up to, not including, `end` on a timeline; begin < end.
struct LiveInterval {
  std::int64_t begin = 0, end = 0;
};

/// Something that needs a place while it lives.
struct PlacedItem {
  std::int64_t num_bytes = 0;           ///< above 0, in whole blocks
  std::vector<LiveInterval> intervals;  ///< in order and disjoint, at least one
};

struct ItemPlaces {
  std::vector<std::int64_t> offsets;  ///< by item
  std::int64_t total_bytes = 0;       ///< the highest end of an item
};

/// Places for items such that no two which live at the same time overlap, in as few bytes as a bounded search finds.
/// Deterministic: a function of the items and their order. Time grows with the square of their number at most.
ItemPlaces place_items(std::span<const PlacedItem> items);

/// The highest sum of sizes that live at one time: no places need less.
std::int64_t peak_bytes(std::span<const PlacedItem> items);

/// Note [Places of buffers]
/// Which buffers are live at one time follows from the order in which routines may follow each other: `load`; then
/// steps of one `first` micro-batch, `next` ones, and `update`; evaluations between steps. A buffer that is live at the
/// end of a routine is live at the start of whatever may come after it. So each routine has a stretch of one timeline,
/// in which a buffer lives from its allocation to its release; and throughout, where it is allocated in a routine
/// before and released in one behind. Two buffers whose stretches are apart may share their bytes: those of different
/// micro-batches, or of training and evaluation.

/// Sets program.placement: a place of whole blocks (512 bytes) for each buffer that a routine allocates, which holds in
/// whatever order steps and evaluations follow each other.
void place(Program& program);

}  // namespace trainer
