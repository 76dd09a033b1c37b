#pragma once

#include <cstdint>
#include <optional>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/program/program.h"

namespace trainer {

// Note [Places of a larger batch]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The search for places (Note [Search for places] in item_places.h) ends a little above the peak, here more and there
// less, so of two neighbouring batch sizes the larger may fit and the smaller not. But what holds a program holds the
// same program with smaller buffers. So where no allocator serves a batch size, it may have places that were found for
// one that is as large or larger:
//
// - The larger program is compiled with room for any scratch that its ops may need at its or a smaller batch size
//   (DeviceModel::most_workspace_bytes), so that no library is asked; it must fit the capacity. For the batch size
//   itself, ops that have no such room get what they do need.
// - Each buffer of the program gets the place of the one that stands for it: the two have the same instructions, but
//   for scratch, and no buffer is larger than the one that lends it its place. An odd last batch has the places of a
//   whole one, a smaller evaluation batch those of a larger one. Scratch without or beyond a place lies behind all
//   others, where the capacity leaves that.
//
// The larger batch sizes are tried one after the other, until one does not fit without any scratch, and none above it
// does. So if a batch size fits with room for
// any scratch, all smaller ones of the same instructions fit: Note [The largest value] in
// engine/plan/search/largest_value.h.

/// Whose places a program has: MemoryConfig::places.
using LentPlaces = MemoryConfig::LentPlaces;

/// Where no places of its own serve `experiment`, which is settled and has memory.allocator: planned: those of the
/// first batch size that lends them under the capacity. Adds to `num_instructions` those that were compiled. Throws
/// what compile throws.
std::optional<LentPlaces> find_lent_places(const Experiment& experiment, const DataDescription& data,
                                           const DeviceModel& device, std::int64_t capacity,
                                           std::int64_t& num_instructions);

/// Sets program.placement to what experiment.memory.places says. InternalError where that cannot lend them.
void place_as_lent(Program& program, const Experiment& experiment, const DataDescription& data,
                   const DeviceModel& device);

/// The experiment at another batch size, with room for any scratch and places of its own, where they fit the capacity;
/// nothing where they do not. With `asks`, ops that have no such room get what they need.
struct RoomyProgram {
  std::optional<Program> program;
  bool is_too_large = false;  ///< without any scratch already
};
RoomyProgram compile_with_room(Experiment experiment, const DataDescription& data, const DeviceModel& device,
                               std::int64_t batch_size, std::int64_t capacity, bool asks,
                               std::int64_t& num_instructions);

}  // namespace trainer
