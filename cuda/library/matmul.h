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
  bias_gradient_a,  ///< the product itself; and the sums of op(A)'s rows over k in bias (m); only with transpose_a
};

constexpr bool reads_bias(Epilogue epilogue) {
  return epilogue == Epilogue::bias || epilogue == Epilogue::relu_bias || epilogue == Epilogue::gelu_bias_aux ||
         epilogue == Epilogue::relu_bias_aux;
}
constexpr bool applies_relu(Epilogue epilogue) {
  return epilogue == Epilogue::relu || epilogue == Epilogue::relu_bias || epilogue == Epilogue::relu_aux ||
         epilogue == Epilogue::relu_bias_aux;
}
/// aux holds the sums before GELU: (m, n) of the call's type, row-major and without gaps.
constexpr bool has_gelu_aux(Epilogue epilogue) {
  return epilogue == Epilogue::gelu_bias_aux || epilogue == Epilogue::gelu_aux || epilogue == Epilogue::dgelu;
}
/// aux holds bits, (m, relu_mask_row_bytes(n)) of u8 as in engine/ops/linear.h. What the bits behind column n of a row
/// become is open.
constexpr bool has_relu_mask(Epilogue epilogue) {
  return epilogue == Epilogue::drelu || epilogue == Epilogue::relu_bias_aux || epilogue == Epilogue::relu_aux;
}

/// C (m × n) = epilogue(op(A) (m × k) · op(B) (k × n)), all row-major and without gaps: A is (m, k), or (k, m) where
/// transpose_a; B is (k, n), or (n, k) where transpose_b. Computed in f32 (TF32 products where allowed).
/// Where it adds, that is added to what C holds, and a bias gradient to what there is of it; no other epilogue adds.
/// FLOPs: 2 m n k. Bytes: (m k + k n + m n) · size.
struct MatmulCall {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType type = DType::f32;  ///< of A, B, C, bias and the sums before GELU
  Epilogue epilogue = Epilogue::none;
  bool tf32 = false;
  bool f32_result = false;      ///< C and bias are f32 beside 16-bit A and B
  bool adds = false;            ///< to C
  std::int64_t alignment = 16;  ///< bytes that divide the addresses of A, B and C: a power of two, at most 16
  friend bool operator==(const MatmulCall&, const MatmulCall&) = default;
};

constexpr DType result_type(const MatmulCall& call) { return call.f32_result ? DType::f32 : call.type; }

/// All of them 16-byte aligned but where the call says less; null where it has no such operand.
struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* bias = nullptr;       ///< read, or written by bias_gradient_a
  void* aux = nullptr;        ///< see has_gelu_aux and has_relu_mask; dgelu and drelu read it
  void* workspace = nullptr;  ///< matmul_workspace_bytes(call)
};

/// Scratch offered to the library for one product; a rule, not a reading, so that it can be planned without a GPU: see
/// Note [Scratch of a product] in cuda/ops/matmul_workspace.cpp.
std::int64_t matmul_workspace_bytes(const MatmulCall& call);

/// Knows, for one device, what scratch its products are given; the device may be only described.
class MatmulPlanner {
 public:
  virtual ~MatmulPlanner() = default;
  /// For a product of whatever alignment.
  virtual std::int64_t workspace_bytes(const MatmulCall& call) = 0;
  /// Of the calls asked about, those that device.autotune times and has not timed yet: the next process may plan
  /// another scratch.
  virtual std::int64_t num_untuned() const = 0;
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual void run(const MatmulOperands& operands, Stream stream) = 0;
  /// False where the epilogue is a kernel of its own: the same numbers, later.
  virtual bool is_fused() const { return true; }
};

}  // namespace trainer::cuda
