#include "cuda/device/cuda_side_streams.h"

#include "cuda/device/cuda_call.h"

namespace trainer::cuda {

cudaStream_t CudaSideStreams::handle_of(StreamKind stream) const {
  switch (stream) {
    case StreamKind::to_host:
      return to_host_.get();
    case StreamKind::to_device:
      return to_device_.get();
    case StreamKind::branch:
      return branch_.get();
    case StreamKind::ranks:
      return ranks_.get();
    case StreamKind::kernels:
      break;
  }
  return kernels_;
}

std::int32_t CudaSideStreams::make_event() {
  events_.emplace_back();
  return static_cast<std::int32_t>(events_.size()) - 1;
}

void CudaSideStreams::record(std::int32_t event, StreamKind stream) {
  events_[static_cast<std::size_t>(event)].record(handle_of(stream));
}

void CudaSideStreams::wait(StreamKind stream, std::int32_t event) {
  events_[static_cast<std::size_t>(event)].hold_back(handle_of(stream));
}

void CudaSideStreams::copy(StreamKind stream, void* destination, const void* source, std::int64_t num_bytes) {
  const bool leaves = stream == StreamKind::to_host;
  require_cuda(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(num_bytes),
                               leaves ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, handle_of(stream)),
               leaves ? "copy an activation to the host" : "copy an activation back from the host");
}

void CudaSideStreams::synchronize() {
  require_cuda(cudaStreamSynchronize(to_host_.get()), "wait for activations on their way to the host");
  require_cuda(cudaStreamSynchronize(to_device_.get()), "wait for activations on their way back");
  require_cuda(cudaStreamSynchronize(ranks_.get()), "wait for what ranks tell each other");
}

void CudaSideStreams::settle() noexcept {
  cudaStreamSynchronize(to_host_.get());
  cudaStreamSynchronize(to_device_.get());
  cudaStreamSynchronize(ranks_.get());
}

}  // namespace trainer::cuda
