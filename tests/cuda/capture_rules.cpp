#include "tests/cuda/capture_rules.h"

#include <algorithm>

#include "engine/errors.h"

namespace trainer::cuda {

void CaptureRules::record(std::int32_t event, StreamKind stream) {
  require_internal(of(stream).is_captured, "an event of a recording is recorded in a stream that is captured");
  events_.emplace_back(event, Place{stream, of(stream).num_given});
}

void CaptureRules::wait(StreamKind stream, std::int32_t event) {
  const auto last =
      std::find_if(events_.rbegin(), events_.rend(), [=](const auto& each) { return each.first == event; });
  require_internal(last != events_.rend(), "nothing in a recording waits for an event from before it");
  of(stream).is_captured = true;
  const Place& place = last->second;
  if (stream == StreamKind::kernels)
    of(place.stream).num_joined = std::max(of(place.stream).num_joined, place.num_given);
}

void CaptureRules::give(StreamKind stream) {
  require_internal(of(stream).is_captured, "recorded work is in a stream that is captured");
  ++of(stream).num_given;
}

void CaptureRules::end() const {
  for (const Captured& stream : streams_)
    require_internal(&stream == &streams_[0] || stream.num_joined == stream.num_given,
                     "all streams of a recording are waited for in it");
}

}  // namespace trainer::cuda
