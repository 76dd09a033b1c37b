#include "tests/bench_kernels/case_timing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device/cuda_call.h"
#include "cuda/device/stream_handles.h"

namespace trainer::cuda {
namespace {

/// Ends the recording whatever happens, so that the stream can go on.
class Recording {
 public:
  explicit Recording(cudaStream_t stream) : stream_(stream) {
    require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin to record launches");
  }
  ~Recording() {
    if (graph_ == nullptr) cudaStreamEndCapture(stream_, &graph_);
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void end() {
    require_cuda(cudaStreamEndCapture(stream_, &graph_), "record launches");
    require_cuda(cudaGraphInstantiate(&executable_, graph_, 0), "make recorded launches ready");
  }
  void replay() { require_cuda(cudaGraphLaunch(executable_, stream_), "replay launches"); }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

double median_seconds(const QueueLaunch& queue, int launches, int repetitions, cudaStream_t stream) {
  queue(0, stream);  // loads the kernels
  require_cuda(cudaStreamSynchronize(stream), "try a kernel");
  Recording recording(stream);
  for (int index = 0; index < launches; ++index) queue(index, stream);
  recording.end();
  std::vector<TimedEvent> marks(static_cast<std::size_t>(repetitions) + 1);
  recording.replay();
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (i > 0) recording.replay();
    marks[i].record(stream);
  }
  require_cuda(cudaStreamSynchronize(stream), "time a kernel");
  std::vector<double> seconds;
  for (std::size_t i = 1; i < marks.size(); ++i)
    seconds.push_back(static_cast<double>(marks[i].milliseconds_since(marks[i - 1])) / 1e3 / launches);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double copy_bytes_per_second(std::byte* memory, std::int64_t num_bytes, int repetitions, cudaStream_t stream) {
  const auto half = static_cast<std::size_t>(num_bytes / 2);
  const auto copy = [&](int index, cudaStream_t to) {
    std::byte* const other = memory + half;
    require_cuda(cudaMemcpyAsync(index % 2 == 0 ? other : memory, index % 2 == 0 ? memory : other, half,
                                 cudaMemcpyDeviceToDevice, to),
                 "copy on the device");
  };
  return 2.0 * static_cast<double>(half) / median_seconds(copy, 2, repetitions, stream);
}

}  // namespace trainer::cuda
