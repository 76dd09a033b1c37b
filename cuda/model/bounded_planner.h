#pragma once

#include "cuda/library/convolution.h"

namespace trainer::cuda {

/// Plans where cuDNN cannot be asked: takes the scratch of a convolution for all that it may be,
/// memory.workspace_limit. That is an upper bound wherever some engine keeps to the limit, and
/// DeviceModel::workspace_bound has to say so. For the same reason it serves every call, with statistics too: their few
/// bytes are counted.
class BoundedConvolutionPlanner final : public ConvolutionPlanner {
 public:
  std::int64_t workspace_bytes(const ConvolutionCall& call) override;
};

}  // namespace trainer::cuda
