#pragma once

#include <memory>
#include <string>

#include "cuda/library/library.h"
#include "cuda/model/cuda_options.h"

namespace trainer::cuda {

/// cuBLASLt and cuDNN on the current device. Each is started by its own call, so that the memory it takes can be told.
class CudaLibrary final : public Library {
 public:
  explicit CudaLibrary(const CudaOptions& options);
  ~CudaLibrary() override;

  void start_matmuls();
  void start_convolutions();

  std::unique_ptr<Matmul> prepare(const MatmulCall& call) override;
  std::unique_ptr<Convolution> prepare(const ConvolutionCall& call) override;
  ConvolutionPlanner& convolution_planner() override;

 private:
  struct Handles;
  CudaOptions options_;
  std::unique_ptr<Handles> handles_;
};

}  // namespace trainer::cuda
