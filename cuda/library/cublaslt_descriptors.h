#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

#include "cuda/ops/cublaslt_call.h"

namespace trainer::cuda {

/// Throws DeviceError for anything but success. `doing` completes "cuBLASLt could not …".
void require_cublas(cublasStatus_t status, const char* doing);

struct CublasLtAlgorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t workspace_bytes = 0;
};

/// The library's description of an algorithm in hexadecimal digits, and back; false for what is no such text.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm);
bool read_algorithm(const std::string& text, cublasLtMatmulAlgo_t& algorithm);

/// cuBLASLt's objects for one CublasLtCall. They live in place: the library's "opaque" structures hold no resources, so
/// there is nothing to give back.
class CublasLtDescriptors {
 public:
  explicit CublasLtDescriptors(const CublasLtCall& call);

  void set_bias(const void* address);
  void set_aux(const void* address);

  /// At most `most` of the heuristic's choices, its first one first; none where nothing serves.
  std::vector<CublasLtAlgorithm> find_algorithms(cublasLtHandle_t handle, const CublasLtCall& call, int most);
  /// Whether `algorithm`, which was found before, serves here within `workspace_bytes`.
  bool serves(cublasLtHandle_t handle, const CublasLtCall& call, const cublasLtMatmulAlgo_t& algorithm,
              std::int64_t workspace_bytes);
  cublasStatus_t run(cublasLtHandle_t handle, const CublasLtOperands& operands, const cublasLtMatmulAlgo_t& algorithm,
                     std::size_t workspace_bytes, cudaStream_t stream);

 private:
  /// Addresses of which no more than the alignment is read.
  void set_aligned(const CublasLtCall& call);

  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
  float beta_;
};

}  // namespace trainer::cuda
