#pragma once

#include <cstdint>
#include <map>

#include "cuda/ops/side_streams.h"
#include "engine/device/host_slots.h"

namespace trainer::cuda {

/// One slot's way out or back: a copy on a stream of its direction, behind the kernels queued before start(), and the
/// kernels queued after finish() behind it. Legal in a recording that holds both halves.
class SlotCopy {
 public:
  SlotCopy(SideStreams& streams, StreamKind direction)
      : streams_(streams), direction_(direction), ready_(streams.make_event()), done_(streams.make_event()) {}

  void start(void* destination, const void* source, std::int64_t num_bytes);
  void finish();

 private:
  SideStreams& streams_;
  StreamKind direction_;
  std::int32_t ready_;  ///< in the stream of kernels: what the copy reads is there, what it writes over was read
  std::int32_t done_;   ///< in the stream of copies
};

/// The slots of one CUDA device: Note [Offload] in engine/ops/offload.h.
class SlotCopies {
 public:
  SlotCopies(SideStreams& streams, HostSlots& memory) : streams_(streams), memory_(memory) {}

  HostSlots& memory() { return memory_; }
  /// Of that slot and direction; the same object on every call.
  SlotCopy& copy_of(std::int32_t slot, StreamKind direction);

 private:
  SideStreams& streams_;
  HostSlots& memory_;
  std::map<std::pair<std::int32_t, StreamKind>, SlotCopy> copies_;
};

}  // namespace trainer::cuda
