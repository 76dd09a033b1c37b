#pragma once

#include <cublasLt.h>

#include <memory>

#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// cuBLASLt's handle for the calling thread's device. Throws DeviceError.
class CublasLtHandle {
 public:
  CublasLtHandle();
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;

  cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

/// `call` by cuBLASLt, with the algorithm that its heuristic names first among those that give the same bits on every
/// run. Settled here, once: run() only places addresses, so that it can be recorded into a CUDA graph. Where cuBLASLt
/// does not fuse the epilogue, make_unfused_matmul stands behind its product. `handle` outlives the result. Throws
/// DeviceError where there is no algorithm.
std::unique_ptr<Matmul> make_cublaslt_matmul(const MatmulCall& call, cublasLtHandle_t handle);

}  // namespace trainer::cuda
