#include "cuda/device/recorded_graph.h"

#include "cuda/device/cuda_call.h"

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

OwnedGraph capture(cudaStream_t stream, const std::function<void()>& queue) {
  // Of this thread alone: other threads may use the device while a step is recorded.
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "record a step");
  cudaGraph_t graph = nullptr;
  try {
    queue();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  require_cuda(cudaStreamEndCapture(stream, &graph), "record a step");
  return OwnedGraph(graph);
}

}  // namespace

std::unique_ptr<Recording> record_graph(cudaStream_t stream, const std::function<void()>& queue) {
  const OwnedGraph graph = capture(stream, queue);
  cudaGraphExec_t made = nullptr;
  require_cuda(cudaGraphInstantiate(&made, graph.get(), 0), "make a graph of a recorded step");
  OwnedExecutable executable(made);
  // So that the first replay does not wait for it.
  require_cuda(cudaGraphUpload(made, stream), "make a graph of a recorded step");
  return std::make_unique<GraphRecording>(std::move(executable), stream);
}

}  // namespace trainer::cuda
