#include "cuda/device/stream_handles.h"

#include "cuda/device/cuda_call.h"

namespace trainer::cuda {

OwnedStream::OwnedStream() {
  require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
}
OwnedStream::~OwnedStream() { cudaStreamDestroy(stream_); }

OwnedEvent::OwnedEvent(unsigned int flags) { require_cuda(cudaEventCreateWithFlags(&event_, flags), "make an event"); }
OwnedEvent::~OwnedEvent() { cudaEventDestroy(event_); }

void OwnedEvent::record(cudaStream_t stream) {
  require_cuda(cudaEventRecord(event_, stream), "mark a place in a stream");
}
void OwnedEvent::hold_back(cudaStream_t stream) const {
  require_cuda(cudaStreamWaitEvent(stream, event_, 0), "order two streams");
}
void OwnedEvent::wait() const { require_cuda(cudaEventSynchronize(event_), "wait for the GPU"); }

float TimedEvent::milliseconds_since(const TimedEvent& before) const {
  float milliseconds = 0;
  require_cuda(cudaEventElapsedTime(&milliseconds, before.get(), get()), "read the GPU's clock");
  return milliseconds;
}

}  // namespace trainer::cuda
