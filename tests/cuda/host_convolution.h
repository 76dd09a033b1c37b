#pragma once

#include <memory>

#include "cuda/library/convolution.h"

namespace trainer::cuda {

/// The convolution that `call` describes, on host memory, by the obvious loops in double. run() throws InternalError
/// where an operand is missing or given in vain, and writes over all of the workspace.
std::unique_ptr<Convolution> make_host_convolution(const ConvolutionCall& call);

/// Plans for make_host_convolution: a scratch that no other call's is likely to equal, most often no multiple of
/// anything, within the call's limit.
class HostConvolutionPlanner final : public ConvolutionPlanner {
 public:
  std::int64_t workspace_bytes(const ConvolutionCall& call) override;
};

}  // namespace trainer::cuda
