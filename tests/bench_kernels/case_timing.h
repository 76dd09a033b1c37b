#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace trainer::cuda {

/// Queues launch number `index` on the stream; later ones may use other operands.
using QueueLaunch = std::function<void(int index, cudaStream_t stream)>;

/// Seconds of one of `launches`, recorded as one CUDA graph: the median over `repetitions` replays, between events in
/// the same stream. All replays are queued at once, behind one that is not counted, so that the device never waits for
/// the host.
double median_seconds(const QueueLaunch& queue, int launches, int repetitions, cudaStream_t stream);

/// Bytes that the device's own copy moves in a second, read and written, within `num_bytes` at `memory`.
double copy_bytes_per_second(std::byte* memory, std::int64_t num_bytes, int repetitions, cudaStream_t stream);

}  // namespace trainer::cuda
