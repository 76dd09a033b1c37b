#include "tests/bench_kernels/candidate_library.h"

#include "engine/errors.h"

namespace trainer::cuda {

CandidateLibrary::CandidateLibrary() {
  library_.start_matmuls();
  if (cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS) throw DeviceError("cuDNN could not be started");
  plans_.emplace(cudnn_device_properties(handle_));
}

CandidateLibrary::~CandidateLibrary() { cudnnDestroy(handle_); }

const CudnnPlan& CandidateLibrary::plan(const ConvolutionCall& call) {
  constexpr std::size_t most_candidates = 8;
  if (!asked_ || *asked_ != call) {
    asked_.reset();
    candidates_.clear();
    candidates_ = plans_->find(call, most_candidates);
    asked_ = call;
  }
  return candidates_.at(chosen_);
}

std::string CandidateLibrary::engine() const { return candidates_.at(chosen_).engine; }

std::unique_ptr<Convolution> CandidateLibrary::prepare(const ConvolutionCall& call) {
  return load_cudnn_plan(plan(call), call, handle_);
}

}  // namespace trainer::cuda
