#pragma once

#include <cublasLt.h>

#include "cuda/ops/cublaslt_call.h"

namespace trainer::cuda {

/// Throws DeviceError for anything but success. `doing` completes "cuBLASLt could not …".
void require_cublas(cublasStatus_t status, const char* doing);

/// cuBLASLt's objects for one CublasLtCall. They live in place: the library's "opaque" structures hold no resources, so
/// there is nothing to give back.
class CublasLtDescriptors {
 public:
  explicit CublasLtDescriptors(const CublasLtCall& call);

  void set_bias(const void* address);
  void set_aux(const void* address);

  /// The heuristic's first choice; false where it has none.
  bool find_algorithm(cublasLtHandle_t handle, const CublasLtCall& call, cublasLtMatmulAlgo_t& algorithm);
  cublasStatus_t run(cublasLtHandle_t handle, const CublasLtOperands& operands, const cublasLtMatmulAlgo_t& algorithm,
                     std::size_t workspace_bytes, cudaStream_t stream);

 private:
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
  float beta_;
};

}  // namespace trainer::cuda
