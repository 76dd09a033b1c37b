#include "cuda/device/cuda_library.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/library/cublaslt_matmul.h"
#include "engine/errors.h"

namespace trainer::cuda {

CudaLibrary::CudaLibrary(std::shared_ptr<MemoryChanges> changes) : changes_(std::move(changes)) {}
CudaLibrary::~CudaLibrary() = default;

void CudaLibrary::start_matmuls() { matmuls_ = std::make_unique<CublasLtHandle>(); }
void CudaLibrary::start_convolutions(const CudaOptions& options) {
  convolutions_.emplace(options, changes_);
  try {
    attentions_.emplace(cudnn_properties(), convolutions_->handle());
  } catch (const DeviceError& error) {  // what needs no attention runs all the same
    attention_problem_ = fmt::format("attention of 16 bits runs in trainer's own kernels: {}", error.what());
  }
  if (!options.autotune) return;
  tuned_matmuls_ = std::make_unique<TunedMatmuls>(
      tuned_matmuls_path(cudnn_properties(), static_cast<std::int64_t>(cublasLtGetVersion())),
      [this](const MatmulCall& call, std::int64_t workspace_limit) {
        return find_cublaslt_candidates(call, *matmuls_, workspace_limit);
      },
      [this](const MatmulCall& call, const std::vector<MatmulCandidate>& candidates) {
        return time_cublaslt_candidates(call, *matmuls_, candidates, *changes_);
      });
}

std::unique_ptr<Matmul> CudaLibrary::prepare(const MatmulCall& call) {
  if (tuned_matmuls_ == nullptr) return make_cublaslt_matmul(call, *matmuls_);
  return make_cublaslt_matmul(call, *matmuls_,
                              {tuned_matmuls_->workspace_bytes(call), tuned_matmuls_->choice_to_run(call)});
}

MatmulPlanner* CudaLibrary::matmul_planner() { return tuned_matmuls_.get(); }

std::unique_ptr<Convolution> CudaLibrary::prepare(const ConvolutionCall& call) {
  return convolutions_.value().prepare(call);
}

ConvolutionPlanner& CudaLibrary::convolution_planner() { return convolutions_.value().planner(); }

AttentionPlanner* CudaLibrary::attention_planner() { return attentions_ ? attentions_->planner() : nullptr; }

std::shared_ptr<FusedAttention> CudaLibrary::prepare_attention(const AttentionCall& call) {
  return attentions_.value().prepare(call);
}

std::vector<std::string> CudaLibrary::notes() const {
  std::vector<std::string> notes;
  if (!matmuls_->keeps_nan())
    notes.emplace_back(
        "cuBLASLt's ReLU makes 0 of NaN on this GPU: behind products ReLU is a kernel of its own, so that a run that "
        "diverges shows where");
  for (std::string& note : convolutions_.value().notes()) notes.push_back(std::move(note));
  if (std::string note = attentions_ ? attentions_->note() : attention_problem_; !note.empty())
    notes.push_back(std::move(note));
  if (tuned_matmuls_ != nullptr && !tuned_matmuls_->note().empty()) notes.push_back(tuned_matmuls_->note());
  return notes;
}

const std::string& CudaLibrary::cudnn_properties() const { return convolutions_.value().properties_json(); }

}  // namespace trainer::cuda
