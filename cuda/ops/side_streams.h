#pragma once

#include <cstdint>

namespace trainer::cuda {

/// The stream of kernels; beside it one for each direction of the copies of activations, one of kernels that need not
/// hold back those that follow them, and one of what ranks tell each other meanwhile.
enum class StreamKind : std::uint8_t { kernels, to_host, to_device, branch, ranks };
inline constexpr int num_stream_kinds = 5;

/// Streams and the places in them that other streams wait for: CUDA's, or in tests ones that put work off, or do it as
/// soon as nothing holds it back. Work of different streams is in no order but that of the waits.
class SideStreams {
 public:
  virtual ~SideStreams() = default;

  /// A place that can be marked again and again; for good.
  virtual std::int32_t make_event() = 0;
  /// The event stands for what `stream` was given so far.
  virtual void record(std::int32_t event, StreamKind stream) = 0;
  /// What `stream` is given from now on waits for what the event stands for now; one never recorded is over.
  virtual void wait(StreamKind stream, std::int32_t event) = 0;
  /// Between device memory and memory of make_host_memory.
  virtual void copy(StreamKind stream, void* destination, const void* source, std::int64_t num_bytes) = 0;
};

}  // namespace trainer::cuda
