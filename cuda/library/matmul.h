#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// What a matrix product does with its result before it is stored.
enum class Epilogue : std::uint8_t {
  none,
  bias,             ///< + bias[j]
  relu,             ///< max(·, 0)
  relu_bias,        ///< max(· + bias[j], 0)
  gelu_bias_aux,    ///< gelu_tanh(· + bias[j]); the sum before it is stored in aux
  gelu_aux,         ///< gelu_tanh(·), likewise
  dgelu,            ///< · gelu_tanh'(aux[i][j])
  drelu,            ///< · where bit (i, j) of aux is set, else 0
  relu_bias_aux,    ///< relu_bias, and a bit for each positive result in aux
  relu_aux,         ///< relu, likewise
  bias_gradient_a,  ///< the product itself; and the sums of op(A)'s rows over k in bias (m)
};

/// C (m × n) = epilogue(op(A) (m × k) · op(B) (k × n)), all row-major and without gaps: A is (m, k), or (k, m) where
/// transpose_a; B is (k, n), or (n, k) where transpose_b. Computed in f32 (TF32 products where allowed).
/// FLOPs: 2 m n k. Bytes: (m k + k n + m n) · size.
struct MatmulCall {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType type = DType::f32;  ///< of A, B, C and bias
  Epilogue epilogue = Epilogue::none;
  bool tf32 = false;
  friend bool operator==(const MatmulCall&, const MatmulCall&) = default;
};

struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* bias = nullptr;       ///< read, or written by bias_gradient_a
  void* aux = nullptr;        ///< see Epilogue; row-major (m, n) or bits
  void* workspace = nullptr;  ///< matmul_workspace_bytes(call)
};

/// Scratch offered to the library for one product; a rule, not a reading, so that it can be planned without a GPU.
std::int64_t matmul_workspace_bytes(const MatmulCall& call);

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual void run(const MatmulOperands& operands, Stream stream) = 0;
};

}  // namespace trainer::cuda
