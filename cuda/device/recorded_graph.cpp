#include "cuda/device/recorded_graph.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/device/cuda_call.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

struct DestroyGraph {
  void operator()(CUgraph_st* graph) const noexcept { cudaGraphDestroy(graph); }
};
struct DestroyExecutable {
  void operator()(CUgraphExec_st* executable) const noexcept { cudaGraphExecDestroy(executable); }
};
using OwnedGraph = std::unique_ptr<CUgraph_st, DestroyGraph>;
using OwnedExecutable = std::unique_ptr<CUgraphExec_st, DestroyExecutable>;

class GraphRecording final : public Recording {
 public:
  GraphRecording(OwnedExecutable executable, cudaStream_t stream)
      : executable_(std::move(executable)), stream_(stream) {}
  void replay() override { require_cuda(cudaGraphLaunch(executable_.get(), stream_), "replay a recorded step"); }

 private:
  OwnedExecutable executable_;
  cudaStream_t stream_;
};

/// False with the reason where CUDA refuses and the device can go on.
bool grants(cudaError_t error, const char* doing, std::string& obstacle) {
  if (error == cudaSuccess) return true;
  if (is_fault(error)) require_cuda(error, doing);
  // Leaves no error behind that the next launch would take for its own.
  cudaGetLastError();
  obstacle = fmt::format("CUDA could not {} ({}: {})", doing, cudaGetErrorName(error), cudaGetErrorString(error));
  return false;
}

void abandon_capture(cudaStream_t stream) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}

OwnedGraph capture(cudaStream_t stream, const std::function<void()>& queue, std::string& obstacle) {
  // Of this thread alone: other threads may use the device while a step is recorded.
  if (!grants(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin to record a step", obstacle))
    return {};
  try {
    queue();
  } catch (const DeviceError& error) {
    abandon_capture(stream);
    // The code is lost in the sentence, but a fault stays.
    require_cuda(cudaStreamSynchronize(stream), "record a step");
    obstacle = error.what();
    return {};
  } catch (...) {
    abandon_capture(stream);
    throw;
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  OwnedGraph owned(graph);
  return grants(error, "record a step", obstacle) ? std::move(owned) : OwnedGraph();
}

}  // namespace

std::unique_ptr<Recording> record_graph(cudaStream_t stream, const std::function<void()>& queue,
                                        std::string& obstacle) {
  const OwnedGraph graph = capture(stream, queue, obstacle);
  if (!graph) return nullptr;
  constexpr const char* doing = "make a graph of a recorded step";
  cudaGraphExec_t made = nullptr;
  if (!grants(cudaGraphInstantiate(&made, graph.get(), 0), doing, obstacle)) return nullptr;
  OwnedExecutable executable(made);
  // So that the first replay does not wait for it.
  if (!grants(cudaGraphUpload(made, stream), doing, obstacle)) return nullptr;
  return std::make_unique<GraphRecording>(std::move(executable), stream);
}

}  // namespace trainer::cuda
