#pragma once

#include "engine/config/experiment.h"
#include "engine/memory/caching_allocator.h"

namespace trainer {

/// The allocator that the experiment asks for: the same in its plan and in its run.
inline CachingAllocatorOptions allocator_options(const Experiment& experiment) {
  return {.expandable_segments = experiment.memory.expandable_segments};
}

}  // namespace trainer
