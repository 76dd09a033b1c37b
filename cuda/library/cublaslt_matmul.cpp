#include "cuda/library/cublaslt_matmul.h"

#include <fmt/format.h>

#include "cuda/library/cublaslt_descriptors.h"
#include "cuda/ops/unfused_matmul.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

/// "the product (128×784) · (784×256)ᵀ… of f32".
std::string text_of(const MatmulCall& call) {
  return fmt::format("({}×{}) · ({}×{}) of {}", call.m, call.k, call.k, call.n, name_of(call.type));
}

class CublasLtMatmul final : public Matmul {
 public:
  CublasLtMatmul(const MatmulCall& call, cublasLtHandle_t handle)
      : call_(call), described_(describe_cublaslt(call)), handle_(handle), descriptors_(described_) {}

  bool find_algorithm() { return descriptors_.find_algorithm(handle_, described_, algorithm_); }

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
  cublasLtMatmulAlgo_t algorithm_{};
};

/// Null where cuBLASLt has no algorithm.
std::unique_ptr<Matmul> find(const MatmulCall& call, cublasLtHandle_t handle) {
  auto matmul = std::make_unique<CublasLtMatmul>(call, handle);
  if (!matmul->find_algorithm()) return nullptr;
  return matmul;
}

}  // namespace

CublasLtHandle::CublasLtHandle() { require_cublas(cublasLtCreate(&handle_), "start"); }
CublasLtHandle::~CublasLtHandle() { cublasLtDestroy(handle_); }

std::unique_ptr<Matmul> make_cublaslt_matmul(const MatmulCall& call, cublasLtHandle_t handle) {
  if (cublaslt_supports(call))
    if (auto fused = find(call, handle)) return fused;
  auto product = find(without_epilogue(call), handle);
  if (product == nullptr) {
    throw DeviceError(fmt::format(
        "cuBLASLt has no algorithm to multiply {} with {} of scratch on this GPU; {}renew the CUDA "
        "toolkit, or use device.type=cpu",
        text_of(call), matmul_workspace_bytes(call),
        call.type == DType::bf16 ? "use train.amp=fp16 where it is older than compute capability 8.0, or " : ""));
  }
  if (call.epilogue == Epilogue::none) return product;
  return make_unfused_matmul(call, std::move(product));
}

}  // namespace trainer::cuda
