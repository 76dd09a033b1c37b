#include <catch2/catch.hpp>
#include <vector>

#include "cuda/ops/cublaslt_call.h"
#include "cuda/ops/linear_call.h"
#include "tests/cuda/host_matmul.h"

namespace trainer::cuda {

TEST_CASE("the linear layer of a small network is described to cuBLASLt as its documentation wants it") {
  const Op op = linear_op({DType::f32, {128, 784}}, {.out = 250, .relu = true, .keeps = true});
  const CublasLtCall forward = describe_cublaslt(linear_call(op, true));
  CHECK(forward.transpose_a);
  CHECK_FALSE(forward.transpose_b);
  CHECK(forward.a == CublasLtLayout{784, 250, 784});
  CHECK(forward.b == CublasLtLayout{784, 128, 784});
  CHECK(forward.d == CublasLtLayout{250, 128, 250});
  CHECK(forward.epilogue == CublasLtEpilogue::relu_aux_bias);
  CHECK(forward.aux_leading_dimension == 256);
  CHECK(forward.compute == CublasLtCompute::f32_fast_tf32);
  const CublasLtCall weight = describe_cublaslt(linear_call(linear_backward_weight_op(op), false));
  CHECK_FALSE(weight.transpose_a);
  CHECK(weight.transpose_b);
  CHECK(weight.a == CublasLtLayout{784, 128, 784});
  CHECK(weight.b == CublasLtLayout{250, 128, 250});
  CHECK(weight.d == CublasLtLayout{784, 250, 784});
  CHECK(weight.epilogue == CublasLtEpilogue::bgradb);
  CHECK(weight.compute == CublasLtCompute::f32);
}

TEST_CASE("TF32 is for f32 alone") {
  const MatmulCall call{.m = 8, .n = 8, .k = 8, .type = DType::f16, .tf32 = true};
  CHECK(describe_cublaslt(call).compute == CublasLtCompute::f32);
}

TEST_CASE("a matrix that begins within a tensor is described by the bytes that divide its address") {
  MatmulCall call{.m = 4, .n = 4, .k = 3, .alignment = 4};
  CHECK(describe_cublaslt(call).min_alignment == 4);
  std::vector<float> numbers(64);
  make_host_matmul(call)->run({.a = numbers.data() + 1, .b = numbers.data() + 20, .c = numbers.data() + 40}, nullptr);
  call.alignment = 16;
  CHECK_THROWS_AS(make_host_matmul(call)->run(
                      {.a = numbers.data() + 1, .b = numbers.data() + 20, .c = numbers.data() + 40}, nullptr),
                  InternalError);
}

TEST_CASE("scratch is none for a tile's work, room for parts of a long sum, and never more than 16 MiB of them") {
  constexpr std::int64_t counters = 64 << 10, most = (16 << 20) + counters;
  CHECK(matmul_workspace_bytes({.m = 1, .n = 1, .k = 1}) == 0);
  CHECK(matmul_workspace_bytes({.m = 128, .n = 10, .k = 255}) == 0);
  CHECK(matmul_workspace_bytes({.m = 128, .n = 10, .k = 256}) == counters + 2 * 128 * 10 * 4);
  CHECK(matmul_workspace_bytes({.m = 256, .n = 784, .k = 128}) == counters);
  CHECK(matmul_workspace_bytes({.m = 2000, .n = 2000, .k = 1024}) == counters);
  CHECK(matmul_workspace_bytes({.m = 256, .n = 256, .k = 1 << 20}) == counters + 16 * 256 * 256 * 4);
  for (std::int64_t m = 1; m < 40000; m = m * 3 + 1)
    for (std::int64_t n = 1; n < 40000; n = n * 2 + 1)
      for (std::int64_t k = 1; k < 40000; k = k * 5 + 2) {
        const std::int64_t bytes = matmul_workspace_bytes({.m = m, .n = n, .k = k});
        REQUIRE(bytes <= most);
        REQUIRE(bytes % 512 == 0);
      }
}

}  // namespace trainer::cuda
