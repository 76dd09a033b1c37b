#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "engine/device/device.h"

namespace trainer::cuda {

/// Captures what `queue` queues on `stream` as a CUDA graph, without running it. Throws DeviceError where something in
/// it cannot be captured, and whatever `queue` throws; the stream can be used again in both cases.
std::unique_ptr<Recording> record_graph(cudaStream_t stream, const std::function<void()>& queue);

}  // namespace trainer::cuda
