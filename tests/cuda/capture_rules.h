#pragma once

#include <array>
#include <set>
#include <vector>

#include "cuda/ops/side_streams.h"

namespace trainer::cuda {

/// What CUDA demands of streams while that of the kernels is captured (programming guide, "Cross-stream Dependencies
/// and Events"): another stream is captured once it waits for an event recorded in the capture, no stream waits for an
/// event recorded before it, and at the end every stream has been joined again. Violations throw InternalError.
class CaptureRules {
 public:
  void record(std::int32_t event, StreamKind stream);
  void wait(StreamKind stream, std::int32_t event);
  /// A copy or a kernel.
  void give(StreamKind stream);
  void end() const;

 private:
  struct Captured {
    bool is_captured = false;
    std::int64_t num_given = 0, num_joined = 0;
  };
  struct Place {
    StreamKind stream = StreamKind::kernels;
    std::int64_t num_given = 0;
  };
  Captured& of(StreamKind stream) { return streams_[static_cast<std::size_t>(stream)]; }

  std::array<Captured, num_stream_kinds> streams_{{{.is_captured = true}, {}, {}, {}}};
  std::vector<std::pair<std::int32_t, Place>> events_;
};

}  // namespace trainer::cuda
