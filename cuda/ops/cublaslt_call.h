#pragma once

#include <cstdint>

#include "cuda/library/matmul.h"

namespace trainer::cuda {

// Note [cuBLASLt's view of a product]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// cuBLASLt thinks in columns: a matrix (rows, columns) with leading dimension ld has element (i, j) at j · ld + i. Our
// row-major (m, n) is therefore its (n, m) with ld = n, the transpose, without moving anything. To get C it must
// compute Cᵀ = op(B)ᵀ op(A)ᵀ: its A is our B, its B is our A, and neither changes whether it is transposed. What
// follows:
//   - its rows are our columns, so its bias, one number for each row of D, is our bias along n;
//   - the mask of ReLU has a column of D's bits one after the other: our rows;
//   - the sums of our op(A) over k are those of its B: BGRADB.
// Its documentation (CUDA 13) asks for more:
//   - the mask's leading dimension is a multiple of 128 bits, GELU's sums' a multiple of 8 elements;
//   - BGRADB wants B transposed;
//   - DRELU and DGELU are refused for k = 1 (as nvmath-python found).
// It leaves open what its ReLU makes of NaN, and which bit a sum of exactly 0 sets. Some versions make 0 of NaN, which
// hides where a run diverged. So the GPU is asked once, when the handle is made (relu_keeps_nan); where NaN is lost,
// ReLU is a kernel of its own. A run that diverges is noticed either way: Note [Lost weights] in
// engine/ops/loss_statistics.h.

enum class CublasLtEpilogue : std::uint8_t {
  standard,  ///< DEFAULT
  bias,
  relu,
  relu_bias,
  relu_aux,
  relu_aux_bias,
  drelu,
  gelu_aux,
  gelu_aux_bias,
  dgelu,
  bgradb,
};

enum class CublasLtCompute : std::uint8_t { f32, f32_fast_tf32 };

struct CublasLtLayout {
  std::int64_t rows = 0, columns = 0, leading_dimension = 0;  ///< as stored, before op
  friend bool operator==(const CublasLtLayout&, const CublasLtLayout&) = default;
};

/// The arguments of cublasLtMatmul, named as there: D = epilogue(op(A) op(B) + beta C), alpha 1, C the same as D.
struct CublasLtCall {
  bool transpose_a = false, transpose_b = false;
  CublasLtLayout a, b, d;
  DType type = DType::f32;         ///< of A and B
  DType result_type = DType::f32;  ///< of D, bias and GELU's sums
  float beta = 0;
  CublasLtCompute compute = CublasLtCompute::f32;
  CublasLtEpilogue epilogue = CublasLtEpilogue::standard;
  std::int64_t aux_leading_dimension = 0;  ///< elements, of a mask bits; 0: no aux
  bool has_bias_pointer = false;
  std::int64_t workspace_bytes = 0;
  std::int64_t min_alignment = 16;  ///< of the matrices' addresses
  friend bool operator==(const CublasLtCall&, const CublasLtCall&) = default;
};

struct CublasLtOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  void* bias = nullptr;
  void* aux = nullptr;
  void* workspace = nullptr;
};

/// Whether cuBLASLt computes `call` with its epilogue, as every device wants it; else the epilogue is a kernel of its
/// own behind the product, see cuda/ops/unfused_matmul.h.
bool cublaslt_supports(const MatmulCall& call, bool relu_keeps_nan = true);

CublasLtCall describe_cublaslt(const MatmulCall& call);
CublasLtOperands cublaslt_operands(const MatmulOperands& operands);

}  // namespace trainer::cuda
