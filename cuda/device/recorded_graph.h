#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>

#include "engine/device/device.h"

namespace trainer::cuda {

/// Captures what `queue` queues on `stream` as a CUDA graph, without running it; null where CUDA refuses, with the
/// reason in `obstacle`. Throws DeviceError where the device has failed, and whatever else `queue` throws. But for a
/// failed device the stream can be used again in all cases.
std::unique_ptr<Recording> record_graph(cudaStream_t stream, const std::function<void()>& queue, std::string& obstacle);

}  // namespace trainer::cuda
