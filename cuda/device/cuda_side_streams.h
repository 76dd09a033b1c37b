#pragma once

#include <deque>

#include "cuda/device/stream_handles.h"
#include "cuda/ops/side_streams.h"

namespace trainer::cuda {

/// Streams of the current device beside its stream of kernels. While that one is captured, what waits for it is
/// captured too.
class CudaSideStreams final : public SideStreams {
 public:
  /// `kernels` must outlive it.
  explicit CudaSideStreams(cudaStream_t kernels) : kernels_(kernels) {}

  cudaStream_t handle_of(StreamKind stream) const;

  std::int32_t make_event() override;
  void record(std::int32_t event, StreamKind stream) override;
  void wait(StreamKind stream, std::int32_t event) override;
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t num_bytes) override;

  /// The host waits for the copies and exchanges; throws DeviceError for a fault. Branches are joined to the stream of
  /// kernels.
  void synchronize();
  /// The same without a word of what failed.
  void settle() noexcept;

 private:
  cudaStream_t kernels_;
  OwnedStream to_host_, to_device_, branch_, ranks_;
  std::deque<OwnedEvent> events_;
};

}  // namespace trainer::cuda
