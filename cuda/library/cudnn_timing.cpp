#include "cuda/library/cudnn_timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "cuda/device/cuda_call.h"
#include "cuda/device/stream_handles.h"
#include "cuda/library/timing_memory.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

std::int64_t image_bytes(const ConvolutionCall& call, const std::array<std::int64_t, 4>& image) {
  return image[0] * image[1] * image[2] * image[3] * static_cast<std::int64_t>(size_of(call.type));
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
    const std::unique_ptr<Convolution> convolution = load_cudnn_plan(plan, call, handle);
    return time_of([&] { convolution->run(operands, stream); }, stream);
  } catch (const DeviceError&) {
    // An error that stays is the device's, not the plan's: it comes again.
    cudaGetLastError();
    require_cuda(cudaStreamSynchronize(stream), "time a convolution");
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::size_t> fastest_plan(const ConvolutionCall& call, const std::vector<CudnnPlan>& plans,
                                        cudnnHandle_t handle, MemoryChanges& changes) {
  if (plans.size() < 2) return 0;
  std::int64_t workspace_bytes = 0;
  for (const CudnnPlan& plan : plans) workspace_bytes = std::max(workspace_bytes, plan.workspace_bytes);
  const std::int64_t weight_bytes = image_bytes(call, weights_of(call));
  const std::int64_t bias_bytes = image_bytes(call, {1, 1, 1, call.y[3]});
  const OwnedStream stream;
  TimingMemory memory(timing_calls(), stream.get(), changes);
  void* const x = memory.try_take(image_bytes(call, call.x));
  void* const y = memory.try_take(image_bytes(call, call.y));
  void* const weights = memory.try_take(weight_bytes);
  void* const bias = memory.try_take(bias_bytes);
  void* const workspace = memory.try_take(workspace_bytes);
  auto* const sums = static_cast<float*>(memory.try_take(2 * call.y[3] * static_cast<std::int64_t>(sizeof(float))));
  if (x == nullptr || y == nullptr || weights == nullptr || bias == nullptr || workspace == nullptr || sums == nullptr)
    return std::nullopt;
  ConvolutionOperands operands{x, weights, call.bias ? bias : nullptr, y, workspace};
  if (call.statistics) {
    operands.sums = sums;
    operands.square_sums = sums + call.y[3];
  }
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
