#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cuda/library/cudnn_plans.h"

namespace trainer::cuda {

/// Makes convolutions that run of plans, see Note [One plan] in cuda/library/cudnn_convolution.cpp: as they are written
/// down, and where that fails by planning anew on the device.
class ConvolutionLoader {
 public:
  using Load = std::function<std::unique_ptr<Convolution>(const CudnnPlan&, const ConvolutionCall&)>;

  /// `load` is load_cudnn_plan, `plan_here` is plan_cudnn_here.
  ConvolutionLoader(Load load, Load plan_here);

  /// Runs in the plan's scratch. Throws DeviceError where neither way leads to a convolution.
  std::unique_ptr<Convolution> load(const CudnnPlan& plan, const ConvolutionCall& call);
  /// A sentence that tells of the first plan that could not be loaded; empty where all could.
  const std::string& note() const { return note_; }

 private:
  Load load_, plan_here_;
  std::string note_;
};

}  // namespace trainer::cuda
