#pragma once

#include <string>
#include <utility>

#include "cuda/library/attention.h"
#include "cuda/library/convolution.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

/// Plans where cuDNN cannot be asked: takes the scratch of a convolution for all that it may be,
/// memory.workspace_limit. That is an upper bound wherever some engine keeps to the limit, and
/// DeviceModel::workspace_bound has to say so. For the same reason it serves every call, with statistics too: their few
/// bytes are counted.
class BoundedConvolutionPlanner final : public ConvolutionPlanner {
 public:
  std::int64_t workspace_bytes(const ConvolutionCall& call) override;
};

/// The same for attention.
class BoundedAttentionPlanner final : public AttentionPlanner {
 public:
  /// Why cuDNN cannot be asked.
  explicit BoundedAttentionPlanner(std::string reason) : reason_(std::move(reason)) {}
  std::optional<std::int64_t> workspace_bytes(const AttentionCall& call) override { return call.workspace_limit; }
  std::string bound_reason() const override { return reason_; }

 private:
  std::string reason_;
};

/// compute_workspace_bytes with these in place of cuDNN's planners, and for products without one.
std::int64_t compute_most_workspace_bytes(const Op& op, WorkspaceModel model);

}  // namespace trainer::cuda
