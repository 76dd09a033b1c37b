#pragma once

#include <cstdint>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/traced_source.h"

namespace trainer {

/// A step of a plan, or the evaluation behind one, action by action; of one in which memory runs out, up to there.
struct MemoryTrace {
  std::int64_t step = 0;  ///< 0: loading
  bool evaluation = false;
  /// As it begins: acquire or map of what is held, then allocate of what is live, each by address.
  std::vector<MemoryAction> before;
  std::vector<MemoryAction> actions;
};

/// The step that holds the peak of `plan`, which make_memory_plan made of the same and which fits. Replayed, it ends in
/// the allocated bytes of plan.find(), and its highest are the peak's.
MemoryTrace trace_peak(const Program& program, const RunSchedule& schedule, const MemoryPlan& plan,
                       const CachingAllocatorOptions& options = {});

/// The step in which memory runs out under the capacity of `plan`, which make_memory_plan made of the same and which
/// does not fit: replayed, it ends where plan.failure was told. Not of a program whose buffers have places: its one
/// segment is refused before any step.
MemoryTrace trace_failure(const Program& program, const RunSchedule& schedule, const MemoryPlan& plan,
                          const CachingAllocatorOptions& options = {});

}  // namespace trainer
