#pragma once

#include <cuda_runtime_api.h>

namespace trainer::cuda {

/// A queue of the device that does not wait for the default one.
class OwnedStream {
 public:
  OwnedStream();
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A place in a stream that another stream or the host can wait for. One that was never recorded is over.
class OwnedEvent {
 public:
  OwnedEvent() : OwnedEvent(cudaEventDisableTiming) {}
  ~OwnedEvent();
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  void record(cudaStream_t stream);
  /// What `stream` is given from now on waits.
  void hold_back(cudaStream_t stream) const;
  /// The host waits.
  void wait() const;

 protected:
  explicit OwnedEvent(unsigned int flags);
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// One that knows when it was over.
class TimedEvent : public OwnedEvent {
 public:
  TimedEvent() : OwnedEvent(cudaEventDefault) {}
  /// From `before` to this, once both are over.
  float milliseconds_since(const TimedEvent& before) const;
};

}  // namespace trainer::cuda
