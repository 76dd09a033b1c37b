#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/library/attention.h"
#include "cuda/library/convolution.h"
#include "cuda/library/matmul.h"
#include "cuda/model/cuda_options.h"
#include "cuda/ops/linear_call.h"
#include "engine/config/gpu_profile.h"
#include "engine/device/device.h"

namespace trainer::cuda {

struct WorkspaceModel;

/// A CUDA device that is known by its description alone: programs can be compiled and planned for it anywhere.
class DescribedDevice final : public DeviceModel {
 public:
  /// What workspace_bound() says of ops whose planners know a bound alone; empty of others.
  struct Bounds {
    std::string convolutions, products;
  };
  struct Planners {
    std::unique_ptr<ConvolutionPlanner> convolutions;
    std::unique_ptr<MatmulPlanner> matmuls = nullptr;        ///< null: matmul_workspace_bytes
    std::unique_ptr<AttentionPlanner> attentions = nullptr;  ///< null: own kernels serve
  };

  DescribedDevice(const GpuProfile& profile, const CudaOptions& options, Planners planners, Bounds bounds);

  std::string kind() const override { return "cuda"; }
  std::string name() const override { return name_; }
  /// Throws DeviceError for an op of bf16 where the GPU is too old for it.
  std::int64_t workspace_bytes(const Op& op) const override;
  std::int64_t most_workspace_bytes(const Op& op) const override;
  /// Of the ops asked about: also of convolutions and products that have not been timed yet.
  std::string workspace_bound() const override;
  bool copies_ahead() const override { return true; }
  LinearFusions linear_fusions() const override { return cuda_linear_fusions(options_.tf32); }
  bool convolution_statistics(const Op& conv2d) const override;
  std::vector<NamedBytes> outside_allocator() const override { return outside_allocator_; }
  CommunicationMemory communication_memory(const RankLayout& ranks) const override;

 private:
  void require_precision_of(const Op& op) const;
  WorkspaceModel workspace_model() const;

  std::string name_;
  CudaOptions options_;
  bool has_bf16_ = true;
  Planners planners_;
  Bounds bounds_;
  mutable bool has_convolution_ = false, has_product_ = false;  ///< among the ops asked about
  mutable std::int64_t largest_attention_limit_ = -1;           ///< of what cuDNN could serve of them; -1: nothing
  std::vector<NamedBytes> outside_allocator_;
};

/// The device of `profile`. cuDNN tells the scratch of its convolutions and attention, as it would on the GPU, where
/// the CUDA module can be loaded and the profile has properties for it; else memory.workspace_limit bounds it, products
/// are planned without stored choices, and workspace_bound() says so. Throws ConfigError where the profile names a file
/// that cannot be read; DataError where the file of timed convolutions (device.autotune) is damaged.
std::unique_ptr<DescribedDevice> make_described_device(const GpuProfile& profile, const CudaOptions& options,
                                                       std::int64_t workspace_limit);

}  // namespace trainer::cuda
