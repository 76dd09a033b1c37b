#include "cuda/ops/slot_copies.h"

namespace trainer::cuda {

void SlotCopy::start(void* destination, const void* source, std::int64_t num_bytes) {
  streams_.record(ready_, StreamKind::kernels);
  streams_.wait(direction_, ready_);
  streams_.copy(direction_, destination, source, num_bytes);
  streams_.record(done_, direction_);
}

void SlotCopy::finish() { streams_.wait(StreamKind::kernels, done_); }

SlotCopy& SlotCopies::copy_of(std::int32_t slot, StreamKind direction) {
  const std::pair key(slot, direction);
  const auto known = copies_.find(key);
  return known != copies_.end() ? known->second : copies_.try_emplace(key, streams_, direction).first->second;
}

}  // namespace trainer::cuda
