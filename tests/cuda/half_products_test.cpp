// What cuBLASLt is asked for where a linear layer's operands are 16 bit.

#include <catch2/catch.hpp>

#include "cuda/ops/cublaslt_call.h"
#include "cuda/ops/linear_call.h"

namespace trainer::cuda {

namespace {

constexpr DType product_types[] = {DType::f16, DType::bf16};

CublasLtCall described(const Op& op) { return describe_cublaslt(linear_call(op, true)); }

}  // namespace

TEST_CASE("16-bit linear layers are products of 16 bit with sums in f32, whether TF32 is allowed or not") {
  for (const DType type : product_types) {
    const Op op = linear_op({type, {128, 784}}, {.out = 250});
    for (const Op& each : {op, linear_backward_input_op(op), linear_backward_weight_op(op)}) {
      for (const bool tf32 : {false, true}) {
        const MatmulCall call = linear_call(each, tf32);
        CHECK(call.type == type);
        CHECK(result_type(call) == type);
        CHECK(describe_cublaslt(call).compute == CublasLtCompute::f32);
      }
    }
  }
}

TEST_CASE("16-bit linear layers take the epilogues that f32 ones take, bias and kept sums in their type") {
  for (const DType type : product_types) {
    const TensorType x{type, {128, 784}};
    const Op relu = linear_op(x, {.out = 250, .relu = true, .keeps = true});
    CHECK(described(relu).epilogue == CublasLtEpilogue::relu_aux_bias);
    CHECK(described(relu).aux_leading_dimension == 256);  // bits
    CHECK(described(relu).result_type == type);
    const Op gelu = linear_op(x, {.out = 256, .gelu = true, .keeps = true});
    CHECK(described(gelu).epilogue == CublasLtEpilogue::gelu_aux_bias);
    CHECK(described(gelu).aux_leading_dimension == 256);  // elements
    CHECK(gelu.outputs[1].dtype == type);
    const Op behind = linear_op(relu.outputs[0], {.out = 10});
    CHECK(described(linear_backward_input_op(behind, relu)).epilogue == CublasLtEpilogue::drelu);
    CHECK(described(linear_backward_weight_op(behind)).epilogue == CublasLtEpilogue::bgradb);
  }
}

TEST_CASE("scratch of a product does not depend on the type of its operands: parts of sums are f32") {
  const MatmulCall f32{.m = 128, .n = 10, .k = 4096, .transpose_a = true, .epilogue = Epilogue::bias_gradient_a};
  for (const DType type : product_types) {
    MatmulCall call = f32;
    call.type = type;
    CHECK(matmul_workspace_bytes(call) == matmul_workspace_bytes(f32));
  }
}

}  // namespace trainer::cuda
