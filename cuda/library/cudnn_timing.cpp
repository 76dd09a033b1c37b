#include "cuda/library/cudnn_timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "cuda/device/cuda_call.h"
#include "cuda/device/stream_handles.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

struct FreeDeviceMemory {
  void operator()(void* address) const { cudaFree(address); }
};
using DeviceMemory = std::unique_ptr<void, FreeDeviceMemory>;

/// Null where the device has no room.
DeviceMemory try_allocate(std::int64_t num_bytes) {
  void* address = nullptr;
  const cudaError_t error = cudaMalloc(&address, static_cast<std::size_t>(std::max<std::int64_t>(num_bytes, 1)));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  require_cuda(error, "take memory to time convolutions in");
  DeviceMemory memory(address);
  // Numbers near 0.01 in f32 and bf16 and near 1 in f16: zeros would let the device run faster than it will.
  require_cuda(cudaMemset(address, 0x3C, static_cast<std::size_t>(num_bytes)), "fill memory to time convolutions in");
  return memory;
}

std::int64_t image_bytes(const ConvolutionCall& call, const std::array<std::int64_t, 4>& image) {
  return image[0] * image[1] * image[2] * image[3] * static_cast<std::int64_t>(size_of(call.type));
}

class TimedEvent {
 public:
  TimedEvent() { require_cuda(cudaEventCreate(&event_), "make an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(cudaStream_t stream) { require_cuda(cudaEventRecord(event_, stream), "mark a place in a stream"); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Milliseconds of the fastest of some runs.
float time_of(Convolution& convolution, const ConvolutionOperands& operands, cudaStream_t stream) {
  constexpr int num_runs = 5;
  TimedEvent begin, end;
  convolution.run(operands, stream);  // loads the kernel
  float best = std::numeric_limits<float>::max();
  for (int run = 0; run < num_runs; ++run) {
    begin.record(stream);
    convolution.run(operands, stream);
    end.record(stream);
    require_cuda(cudaEventSynchronize(end.get()), "time a convolution");
    float milliseconds = 0;
    require_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "time a convolution");
    best = std::min(best, milliseconds);
  }
  return best;
}

/// Takes the stream that was timed on off the handle before it goes; a convolution sets its own again when it runs.
class StreamOfHandle {
 public:
  explicit StreamOfHandle(cudnnHandle_t handle) : handle_(handle) {}
  ~StreamOfHandle() { cudnnSetStream(handle_, nullptr); }
  StreamOfHandle(const StreamOfHandle&) = delete;
  StreamOfHandle& operator=(const StreamOfHandle&) = delete;

 private:
  cudnnHandle_t handle_;
};

/// Empty where the plan cannot be used on this device, which is none the worse for that.
std::optional<float> try_time(const CudnnPlan& plan, const ConvolutionCall& call, cudnnHandle_t handle,
                              const ConvolutionOperands& operands, cudaStream_t stream) {
  try {
    return time_of(*load_cudnn_plan(plan, call, handle), operands, stream);
  } catch (const DeviceError&) {
    // An error that stays is the device's, not the plan's: it comes again.
    cudaGetLastError();
    require_cuda(cudaStreamSynchronize(stream), "time a convolution");
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::size_t> fastest_plan(const ConvolutionCall& call, const std::vector<CudnnPlan>& plans,
                                        cudnnHandle_t handle) {
  if (plans.size() < 2) return 0;
  std::int64_t workspace_bytes = 0;
  for (const CudnnPlan& plan : plans) workspace_bytes = std::max(workspace_bytes, plan.workspace_bytes);
  const std::int64_t weight_bytes = image_bytes(call, weights_of(call));
  const std::int64_t bias_bytes = image_bytes(call, {1, 1, 1, call.y[3]});
  const DeviceMemory x = try_allocate(image_bytes(call, call.x)), y = try_allocate(image_bytes(call, call.y)),
                     weights = try_allocate(weight_bytes), bias = try_allocate(bias_bytes),
                     workspace = try_allocate(workspace_bytes);
  if (!x || !y || !weights || !bias || !workspace) return std::nullopt;
  const ConvolutionOperands operands{x.get(), weights.get(), call.bias ? bias.get() : nullptr, y.get(),
                                     workspace.get()};
  const OwnedStream stream;
  const StreamOfHandle taken_off(handle);
  std::optional<std::size_t> fastest;
  float least = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto milliseconds = try_time(plans[i], call, handle, operands, stream.get());
    if (!milliseconds || *milliseconds >= least) continue;
    least = *milliseconds;
    fastest = i;
  }
  return fastest;
}

}  // namespace trainer::cuda
