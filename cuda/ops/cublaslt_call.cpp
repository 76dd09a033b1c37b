#include "cuda/ops/cublaslt_call.h"

#include "engine/errors.h"
#include "engine/ops/linear.h"

namespace trainer::cuda {

namespace {

CublasLtEpilogue epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CublasLtEpilogue::standard;
    case Epilogue::bias:
      return CublasLtEpilogue::bias;
    case Epilogue::relu:
      return CublasLtEpilogue::relu;
    case Epilogue::relu_bias:
      return CublasLtEpilogue::relu_bias;
    case Epilogue::gelu_bias_aux:
      return CublasLtEpilogue::gelu_aux_bias;
    case Epilogue::gelu_aux:
      return CublasLtEpilogue::gelu_aux;
    case Epilogue::dgelu:
      return CublasLtEpilogue::dgelu;
    case Epilogue::drelu:
      return CublasLtEpilogue::drelu;
    case Epilogue::relu_bias_aux:
      return CublasLtEpilogue::relu_aux_bias;
    case Epilogue::relu_aux:
      return CublasLtEpilogue::relu_aux;
    case Epilogue::bias_gradient_a:
      return CublasLtEpilogue::bgradb;
  }
  throw InternalError("internal error: a product with no known epilogue");
}

/// A row-major matrix as cuBLASLt sees it.
CublasLtLayout layout_of(std::int64_t rows, std::int64_t columns) { return {columns, rows, columns}; }

}  // namespace

bool cublaslt_supports(const MatmulCall& call, bool relu_keeps_nan) {
  if (applies_relu(call.epilogue) && !relu_keeps_nan) return false;
  switch (call.epilogue) {
    case Epilogue::gelu_bias_aux:
    case Epilogue::gelu_aux:
      return call.n % 8 == 0;
    case Epilogue::dgelu:
      return call.n % 8 == 0 && call.k > 1;
    case Epilogue::drelu:
      return call.k > 1;
    case Epilogue::bias_gradient_a:
      // What BGRADB makes of beta, and of sums wider than B, is not documented.
      return call.transpose_a && !call.adds && result_type(call) == call.type;
    default:
      return true;
  }
}

CublasLtCall describe_cublaslt(const MatmulCall& call) {
  require_internal(cublaslt_supports(call), "cuBLASLt is asked for what it can do");
  CublasLtCall described;
  described.transpose_a = call.transpose_b;
  described.transpose_b = call.transpose_a;
  described.a = call.transpose_b ? layout_of(call.n, call.k) : layout_of(call.k, call.n);
  described.b = call.transpose_a ? layout_of(call.k, call.m) : layout_of(call.m, call.k);
  described.d = layout_of(call.m, call.n);
  described.type = call.type;
  described.result_type = result_type(call);
  described.beta = call.adds ? 1.0F : 0.0F;
  described.compute = call.tf32 && call.type == DType::f32 ? CublasLtCompute::f32_fast_tf32 : CublasLtCompute::f32;
  described.epilogue = epilogue_of(call.epilogue);
  if (has_relu_mask(call.epilogue)) described.aux_leading_dimension = relu_mask_row_bytes(call.n) * 8;
  if (has_gelu_aux(call.epilogue)) described.aux_leading_dimension = call.n;
  described.has_bias_pointer = reads_bias(call.epilogue) || call.epilogue == Epilogue::bias_gradient_a;
  described.workspace_bytes = matmul_workspace_bytes(call);
  described.min_alignment = call.alignment;
  return described;
}

CublasLtOperands cublaslt_operands(const MatmulOperands& operands) {
  return {operands.b, operands.a, operands.c, operands.bias, operands.aux, operands.workspace};
}

}  // namespace trainer::cuda
