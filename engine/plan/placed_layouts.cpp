#include "engine/plan/placed_layouts.h"

#include "engine/program/placement.h"

namespace trainer {

const std::shared_ptr<const Placement>& TransientPlaces::get() {
  if (!places_) places_ = std::make_shared<const Placement>(place_transient(program_));
  return places_;
}

bool place_layouts(LiveBuffers& live, Allocator& allocator, TransientPlaces& places,
                   std::optional<RefusedPlaces>& refused) {
  if (live.has_places() || !allocator.may_plan_segment() || places.get()->segment_bytes == 0) return false;
  if (!allocator.plan_segment(places.get()->segment_bytes)) {
    refused = {allocator.statistics().reserved_bytes.all.current, places.get()->segment_bytes};
    return false;
  }
  live.use_places(places.get());
  return true;
}

}  // namespace trainer
