#pragma once

#include <cudnn.h>

#include <optional>
#include <string>
#include <vector>

#include "cuda/device/cuda_library.h"
#include "cuda/library/cudnn_plans.h"

namespace trainer::cuda {

/// cuBLASLt and cuDNN on the current device, with a convolution's engine chosen by the caller.
class CandidateLibrary final : public Library, private ConvolutionPlanner {
 public:
  CandidateLibrary();
  ~CandidateLibrary() override;
  CandidateLibrary(const CandidateLibrary&) = delete;
  CandidateLibrary& operator=(const CandidateLibrary&) = delete;

  /// Convolutions that are asked for next are computed by this of their candidates, the first being what the
  /// heuristics choose.
  void choose(std::size_t candidate) { chosen_ = candidate; }
  /// Of the convolution that was asked for last.
  std::size_t num_candidates() const { return candidates_.size(); }
  std::string engine() const;

  std::unique_ptr<Matmul> prepare(const MatmulCall& call) override { return library_.prepare(call); }
  std::unique_ptr<Convolution> prepare(const ConvolutionCall& call) override;
  ConvolutionPlanner& convolution_planner() override { return *this; }

 private:
  std::int64_t workspace_bytes(const ConvolutionCall& call) override { return plan(call).workspace_bytes; }
  const CudnnPlan& plan(const ConvolutionCall& call);

  CudaLibrary library_{std::make_shared<MemoryChanges>()};
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnPlans> plans_;
  std::optional<ConvolutionCall> asked_;
  std::vector<CudnnPlan> candidates_;  ///< for asked_
  std::size_t chosen_ = 0;
};

}  // namespace trainer::cuda
