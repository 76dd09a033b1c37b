#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/memory/caching_allocator.h"

namespace trainer {

/// Whether the caching allocator may place layouts that do not fit otherwise: Note [Placed layouts] in
/// placed_layouts.h.
enum class PlacedLayouts : std::uint8_t { where_needed, never };

/// The allocator that the experiment asks for: the same in its plan and in its run, but that a run which goes on in the
/// allocator of the stage before has what it begins with already.
inline CachingAllocatorOptions allocator_options(const Experiment& experiment,
                                                 PlacedLayouts placed = PlacedLayouts::where_needed) {
  const bool expands = experiment.memory.expandable_segments;
  return {.expandable_segments = expands,
          .may_plan_segment = !expands && placed == PlacedLayouts::where_needed,
          .begins_with = experiment.memory.kept};
}

}  // namespace trainer
