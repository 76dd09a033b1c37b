#include "cuda/device/cuda_library.h"

#include "cuda/library/cublaslt_matmul.h"

namespace trainer::cuda {

CudaLibrary::CudaLibrary() = default;
CudaLibrary::~CudaLibrary() = default;

void CudaLibrary::start_matmuls() { matmuls_ = std::make_unique<CublasLtHandle>(); }
void CudaLibrary::start_convolutions(const CudaOptions& options) { convolutions_.emplace(options); }

std::unique_ptr<Matmul> CudaLibrary::prepare(const MatmulCall& call) {
  return make_cublaslt_matmul(call, matmuls_->get());
}

std::unique_ptr<Convolution> CudaLibrary::prepare(const ConvolutionCall& call) {
  return convolutions_.value().prepare(call);
}

ConvolutionPlanner& CudaLibrary::convolution_planner() { return convolutions_.value().planner(); }

const std::string& CudaLibrary::cudnn_properties() const { return convolutions_.value().properties_json(); }

}  // namespace trainer::cuda
