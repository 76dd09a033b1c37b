#pragma once

#include <memory>

#include "cuda/library/attention.h"
#include "cuda/library/convolution.h"
#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// Prepares calls into the vendor's libraries from their descriptions. On a GPU these are cuBLASLt and cuDNN; tests
/// interpret the descriptions on the host.
class Library {
 public:
  virtual ~Library() = default;
  virtual std::unique_ptr<Matmul> prepare(const MatmulCall& call) = 0;
  /// What prepare() would give a product of scratch; null: matmul_workspace_bytes.
  virtual MatmulPlanner* matmul_planner() { return nullptr; }
  virtual std::unique_ptr<Convolution> prepare(const ConvolutionCall& call) = 0;
  /// The engine that prepare() would choose, and its scratch.
  virtual ConvolutionPlanner& convolution_planner() = 0;
  /// Null: own kernels serve all attention.
  virtual AttentionPlanner* attention_planner() { return nullptr; }
  /// Of a call that attention_planner() has scratch for; null where it cannot run on the device after all.
  virtual std::shared_ptr<FusedAttention> prepare_attention(const AttentionCall&) { return nullptr; }
};

}  // namespace trainer::cuda
