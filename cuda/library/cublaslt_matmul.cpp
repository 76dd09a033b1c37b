#include "cuda/library/cublaslt_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cuda/device/cuda_call.h"
#include "cuda/device/stream_handles.h"
#include "cuda/library/cublaslt_descriptors.h"
#include "cuda/library/timing_memory.h"
#include "cuda/ops/nan_probe.h"
#include "cuda/ops/unfused_matmul.h"
#include "engine/errors.h"
#include "engine/ops/linear.h"

namespace trainer::cuda {

namespace {

/// "the product (128×784) · (784×256)ᵀ… of f32".
std::string text_of(const MatmulCall& call) {
  return fmt::format("({}×{}) · ({}×{}) of {}", call.m, call.k, call.k, call.n, name_of(call.type));
}

class CublasLtMatmul final : public Matmul {
 public:
  CublasLtMatmul(const MatmulCall& call, const CublasLtCall& described, cublasLtHandle_t handle,
                 const cublasLtMatmulAlgo_t& algorithm)
      : call_(call), described_(described), handle_(handle), descriptors_(described_), algorithm_(algorithm) {}

  void run(const MatmulOperands& operands, Stream stream) override {
    const cublasStatus_t status = descriptors_.run(handle_, cublaslt_operands(operands), algorithm_,
                                                   static_cast<std::size_t>(described_.workspace_bytes), stream);
    if (status != CUBLAS_STATUS_SUCCESS) require_cublas(status, ("multiply " + text_of(call_)).c_str());
  }

 private:
  MatmulCall call_;
  CublasLtCall described_;
  cublasLtHandle_t handle_;
  CublasLtDescriptors descriptors_;
  cublasLtMatmulAlgo_t algorithm_;
};

CublasLtCall describe_within(const MatmulCall& call, std::int64_t workspace_bytes) {
  CublasLtCall described = describe_cublaslt(call);
  described.workspace_bytes = workspace_bytes;
  return described;
}

/// Null where cuBLASLt has no algorithm.
std::unique_ptr<Matmul> find(const MatmulCall& call, cublasLtHandle_t handle, std::int64_t workspace_bytes) {
  const CublasLtCall described = describe_within(call, workspace_bytes);
  const auto found = CublasLtDescriptors(described).find_algorithms(handle, described, 1);
  if (found.empty()) return nullptr;
  return std::make_unique<CublasLtMatmul>(call, described, handle, found[0].algorithm);
}

/// Null where the algorithm does not serve within the candidate's scratch.
std::unique_ptr<Matmul> make_candidate(const MatmulCall& call, const CublasLtHandle& handle,
                                       const MatmulCandidate& candidate) {
  if (candidate.is_fused && !cublaslt_supports(call, handle.keeps_nan())) return nullptr;
  const MatmulCall computed = candidate.is_fused ? call : without_epilogue(call);
  const CublasLtCall described = describe_within(computed, candidate.workspace_bytes);
  cublasLtMatmulAlgo_t algorithm{};
  if (!read_algorithm(candidate.algorithm, algorithm) ||
      !CublasLtDescriptors(described).serves(handle.get(), described, algorithm, candidate.workspace_bytes))
    return nullptr;
  auto matmul = std::make_unique<CublasLtMatmul>(computed, described, handle.get(), algorithm);
  if (candidate.is_fused || call.epilogue == Epilogue::none) return matmul;
  return make_unfused_matmul(call, std::move(matmul), candidate.workspace_bytes > 0);
}

class ProbeMemory {
 public:
  explicit ProbeMemory(std::int64_t num_bytes) {
    if (num_bytes > 0) require_cuda(cudaMalloc(&address_, static_cast<std::size_t>(num_bytes)), "try a product");
  }
  ~ProbeMemory() { cudaFree(address_); }
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;
  void* get() const { return address_; }

 private:
  void* address_ = nullptr;
};

/// RunProbe on the current device.
std::vector<std::byte> run_probe(Matmul& matmul, const ProbeOperands& operands) {
  const OwnedStream stream;
  const auto copy = [&](void* to, const void* from, std::size_t num_bytes, cudaMemcpyKind kind) {
    require_cuda(cudaMemcpyAsync(to, from, num_bytes, kind, stream.get()), "try a product");
  };
  const auto brought = [&](const ProbeMemory& memory, const std::vector<std::byte>& bytes) {
    if (!bytes.empty()) copy(memory.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    return memory.get();
  };
  const ProbeMemory a(std::ssize(operands.a)), b(std::ssize(operands.b)), bias(std::ssize(operands.bias)),
      c(operands.c_bytes), aux(operands.aux_bytes), workspace(operands.workspace_bytes);
  matmul.run({.a = brought(a, operands.a),
              .b = brought(b, operands.b),
              .c = c.get(),
              .bias = brought(bias, operands.bias),
              .aux = aux.get(),
              .workspace = workspace.get()},
             stream.get());
  std::vector<std::byte> result(static_cast<std::size_t>(operands.c_bytes));
  copy(result.data(), c.get(), result.size(), cudaMemcpyDeviceToHost);
  require_cuda(cudaStreamSynchronize(stream.get()), "try a product");
  return result;
}

}  // namespace

CublasLtHandle::CublasLtHandle() {
  require_cublas(cublasLtCreate(&handle_), "start");
  keeps_nan_ = relu_keeps_nan(
      [this](const MatmulCall& call) { return find(call, handle_, matmul_workspace_bytes(call)); }, run_probe);
}
CublasLtHandle::~CublasLtHandle() { cublasLtDestroy(handle_); }

std::unique_ptr<Matmul> make_cublaslt_matmul(const MatmulCall& call, const CublasLtHandle& handle,
                                             const MatmulScratch& scratch) {
  const std::int64_t workspace_bytes = scratch.num_bytes.value_or(matmul_workspace_bytes(call));
  if (scratch.choice)
    if (auto chosen = make_candidate(call, handle, *scratch.choice)) return chosen;
  if (cublaslt_supports(call, handle.keeps_nan()))
    if (auto fused = find(call, handle.get(), workspace_bytes)) return fused;
  const MatmulCall product_call = without_epilogue(call);
  const std::int64_t product_bytes = std::min(workspace_bytes, matmul_workspace_bytes(product_call));
  auto product = find(product_call, handle.get(), product_bytes);
  if (product == nullptr) {
    throw DeviceError(fmt::format(
        "cuBLASLt has no algorithm to multiply {} with {} of scratch on this GPU; {}renew the CUDA "
        "toolkit, or use device.type=cpu",
        text_of(call), workspace_bytes,
        call.type == DType::bf16 ? "use train.amp=fp16 where it is older than compute capability 8.0, or " : ""));
  }
  if (call.epilogue == Epilogue::none) return product;
  return make_unfused_matmul(call, std::move(product), product_bytes > 0);
}

std::vector<MatmulCandidate> find_cublaslt_candidates(const MatmulCall& call, const CublasLtHandle& handle,
                                                      std::int64_t workspace_limit) {
  constexpr int most_candidates = 8;
  std::vector<MatmulCandidate> candidates;
  const auto add = [&](const MatmulCall& computed, bool is_fused) {
    const CublasLtCall described = describe_within(computed, workspace_limit);
    for (const CublasLtAlgorithm& found :
         CublasLtDescriptors(described).find_algorithms(handle.get(), described, most_candidates))
      candidates.push_back({is_fused, found.workspace_bytes, text_of(found.algorithm)});
  };
  if (cublaslt_supports(call, handle.keeps_nan())) add(call, true);
  if (call.epilogue != Epilogue::none) add(without_epilogue(call), false);
  return candidates;
}

std::vector<std::optional<float>> time_cublaslt_candidates(const MatmulCall& call, const CublasLtHandle& handle,
                                                           const std::vector<MatmulCandidate>& candidates,
                                                           MemoryChanges& changes) {
  std::vector<std::optional<float>> times(candidates.size());
  const auto bytes = [](std::int64_t count, DType type) { return count * static_cast<std::int64_t>(size_of(type)); };
  std::int64_t workspace_bytes = matmul_workspace_bytes(call), aux_bytes = 0;
  for (const MatmulCandidate& candidate : candidates)
    workspace_bytes = std::max(workspace_bytes, candidate.workspace_bytes);
  if (has_relu_mask(call.epilogue)) aux_bytes = call.m * relu_mask_row_bytes(call.n);
  if (has_gelu_aux(call.epilogue)) aux_bytes = bytes(call.m * call.n, call.type);
  const bool has_bias = reads_bias(call.epilogue) || call.epilogue == Epilogue::bias_gradient_a;
  const OwnedStream stream;
  TimingMemory memory(timing_calls(), stream.get(), changes);
  const MatmulOperands operands{
      .a = memory.try_take(bytes(call.m * call.k, call.type)),
      .b = memory.try_take(bytes(call.k * call.n, call.type)),
      .c = memory.try_take(bytes(call.m * call.n, result_type(call))),
      .bias = has_bias ? memory.try_take(bytes(std::max(call.m, call.n), result_type(call))) : nullptr,
      .aux = aux_bytes > 0 ? memory.try_take(aux_bytes) : nullptr,
      .workspace = memory.try_take(workspace_bytes)};
  const bool has_room = operands.a != nullptr && operands.b != nullptr && operands.c != nullptr &&
                        operands.workspace != nullptr && (operands.bias != nullptr) == has_bias &&
                        (operands.aux != nullptr) == (aux_bytes > 0);
  for (std::size_t i = 0; has_room && i < candidates.size(); ++i) {
    try {
      if (const auto matmul = make_candidate(call, handle, candidates[i]))
        times[i] = time_of([&] { matmul->run(operands, stream.get()); }, stream.get());
    } catch (const DeviceError&) {
      // An error that stays is the device's, not the candidate's: it comes again.
      cudaGetLastError();
      require_cuda(cudaStreamSynchronize(stream.get()), "time a product");
    }
  }
  return times;
}

std::unique_ptr<MatmulPlanner> make_matmul_planner(const std::string& properties_json, const CudaOptions& options) {
  if (!options.autotune) return nullptr;
  const std::string path = tuned_matmuls_path(properties_json, static_cast<std::int64_t>(cublasLtGetVersion()));
  return std::make_unique<TunedMatmuls>(path, FindMatmuls(), TimeMatmuls());
}

}  // namespace trainer::cuda
