#include "cuda/library/convolution_loader.h"

#include <fmt/format.h>

#include <utility>

#include "engine/errors.h"

namespace trainer::cuda {

ConvolutionLoader::ConvolutionLoader(Load load, Load plan_here)
    : load_(std::move(load)), plan_here_(std::move(plan_here)) {}

std::unique_ptr<Convolution> ConvolutionLoader::load(const CudnnPlan& plan, const ConvolutionCall& call) {
  std::string reason;
  try {
    return load_(plan, call);
  } catch (const DeviceError& error) {
    reason = error.what();
  }
  std::unique_ptr<Convolution> convolution;
  try {
    convolution = plan_here_(plan, call);
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("{}; planned anew on the GPU: {}", reason, error.what()));
  }
  if (note_.empty())
    note_ = fmt::format(
        "Convolutions are planned anew on the GPU, in the scratch that was planned, because a plan that was made "
        "without it cannot be loaded: {}",
        reason);
  return convolution;
}

}  // namespace trainer::cuda
