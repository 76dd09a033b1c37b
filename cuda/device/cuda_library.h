#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device/memory_changes.h"
#include "cuda/library/cudnn_attention.h"
#include "cuda/library/cudnn_convolution.h"
#include "cuda/library/library.h"
#include "cuda/model/cuda_options.h"

namespace trainer::cuda {

class CublasLtHandle;
class TunedMatmuls;

/// cuBLASLt and cuDNN on the current device. Each is started by its own call, before it is used, so that the memory it
/// takes can be told.
class CudaLibrary final : public Library {
 public:
  /// `changes` is told of the memory that timing takes.
  explicit CudaLibrary(std::shared_ptr<MemoryChanges> changes);
  ~CudaLibrary() override;

  void start_matmuls();
  void start_convolutions(const CudaOptions& options);

  std::unique_ptr<Matmul> prepare(const MatmulCall& call) override;
  MatmulPlanner* matmul_planner() override;
  std::unique_ptr<Convolution> prepare(const ConvolutionCall& call) override;
  ConvolutionPlanner& convolution_planner() override;
  AttentionPlanner* attention_planner() override;
  std::shared_ptr<FusedAttention> prepare_attention(const AttentionCall& call) override;
  /// Device::notes.
  std::vector<std::string> notes() const;
  /// What a profile must carry to plan for this device elsewhere.
  const std::string& cudnn_properties() const;

 private:
  std::shared_ptr<MemoryChanges> changes_;
  std::unique_ptr<CublasLtHandle> matmuls_;
  std::optional<CudnnConvolutions> convolutions_;
  std::optional<CudnnAttentions> attentions_;
  std::string attention_problem_;                ///< why there are none
  std::unique_ptr<TunedMatmuls> tuned_matmuls_;  ///< with device.autotune
};

}  // namespace trainer::cuda
