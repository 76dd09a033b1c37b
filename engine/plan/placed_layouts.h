#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/plan/live_buffers.h"
#include "engine/program/program.h"

namespace trainer {

// Note [Placed layouts]
// ~~~~~~~~~~~~~~~~~~~~~
// A layout keeps the segments it has used until its work is done (Note [Layout before work] in
// engine/train/executor.h), so near the capacity the caching allocator would fit less than PyTorch's, which waits in
// the middle of a step and gives them back. But here everything that a step allocates is known before it: a layout that
// runs out of memory is undone, the whole cache is given back, and what does not outlive a step gets a place in one
// segment (place_transient in engine/program/placement.h), for this layout and all later ones. That segment and those
// of persistent buffers are all that is reserved then: no more than PyTorch's allocator reserves at the peak, but for
// the free rest of persistent buffers' segments, which it might have used. Where even they do not fit, memory has run
// out where the layout that was undone says.
//
// Plan and run do the same, so that the plan tells the step from which on layouts are placed. What the layout that was
// undone had reserved counts for the peak of its step, what it had allocated does not.

/// The places of a program's transient buffers, found when they are first needed.
class TransientPlaces {
 public:
  /// The program must outlive it.
  explicit TransientPlaces(const Program& program) : program_(program) {}
  const std::shared_ptr<const Placement>& get();

 private:
  const Program& program_;
  std::shared_ptr<const Placement> places_;
};

/// What the source had given, and was asked for, where it refused the segment of places.
struct RefusedPlaces {
  std::int64_t reserved = 0;  ///< once the cache was given back
  std::int64_t segment_bytes = 0;
};

/// Places all further layouts of a program, after one that ran out of memory was undone, which began with all
/// persistent buffers live and nothing else (LiveBuffers::holds_only_persistent). False where they are placed already,
/// where the allocator has no planned segment, or where that is refused, which `refused` tells then.
bool place_layouts(LiveBuffers& live, Allocator& allocator, TransientPlaces& places,
                   std::optional<RefusedPlaces>& refused);

}  // namespace trainer
