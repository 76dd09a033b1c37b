#pragma once

#include <cublasLt.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device/memory_changes.h"
#include "cuda/library/tuned_matmuls.h"
#include "cuda/model/cuda_options.h"

namespace trainer::cuda {

/// cuBLASLt's handle for the calling thread's device, with what was found out of it there. Throws DeviceError.
class CublasLtHandle {
 public:
  CublasLtHandle();
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;

  cublasLtHandle_t get() const { return handle_; }
  /// What relu_keeps_nan answered; tests may have it otherwise.
  bool keeps_nan() const { return keeps_nan_; }
  void set_keeps_nan(bool keeps) { keeps_nan_ = keeps; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  bool keeps_nan_ = true;
};

/// What a product is given to run in; nothing: matmul_workspace_bytes, and the heuristic's first algorithm.
struct MatmulScratch {
  std::optional<std::int64_t> num_bytes = {};
  std::optional<MatmulCandidate> choice = {};  ///< which needs no more
};

/// `call` by cuBLASLt, with the chosen algorithm where it serves, else with the one that its heuristic names first
/// among those that give the same bits on every run. Settled here, once: run() only places addresses, so that it can be
/// recorded into a CUDA graph. Where cuBLASLt does not fuse the epilogue, or its ReLU loses NaN, make_unfused_matmul
/// stands behind its product. `handle` outlives the result. Throws DeviceError where there is no algorithm.
std::unique_ptr<Matmul> make_cublaslt_matmul(const MatmulCall& call, const CublasLtHandle& handle,
                                             const MatmulScratch& scratch = {});

/// FindMatmuls: the heuristic's first eight with the epilogue, where it is fused, and without it.
std::vector<MatmulCandidate> find_cublaslt_candidates(const MatmulCall& call, const CublasLtHandle& handle,
                                                      std::int64_t workspace_limit);
/// TimeMatmuls, in memory that is taken from the device and given back, which `changes` is told of; nothing where it
/// has no room. Throws DeviceError where the device itself fails.
std::vector<std::optional<float>> time_cublaslt_candidates(const MatmulCall& call, const CublasLtHandle& handle,
                                                           const std::vector<MatmulCandidate>& candidates,
                                                           MemoryChanges& changes);

/// What a device that is only described, as in make_cudnn_planner, gives its products of scratch by the choices that it
/// stored; null without options.autotune.
std::unique_ptr<MatmulPlanner> make_matmul_planner(const std::string& properties_json, const CudaOptions& options);

}  // namespace trainer::cuda
