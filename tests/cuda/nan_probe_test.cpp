#include "cuda/ops/nan_probe.h"

#include <catch2/catch.hpp>
#include <set>

#include "cuda/ops/cublaslt_call.h"
#include "cuda/ops/unfused_matmul.h"
#include "tests/cuda/host_matmul.h"

namespace trainer::cuda {

namespace {

std::vector<std::byte> run_probe_on_host(Matmul& matmul, ProbeOperands operands) {
  std::vector<std::byte> c(static_cast<std::size_t>(operands.c_bytes)),
      aux(static_cast<std::size_t>(operands.aux_bytes)), workspace(static_cast<std::size_t>(operands.workspace_bytes));
  const auto data = [](std::vector<std::byte>& bytes) { return bytes.empty() ? nullptr : bytes.data(); };
  matmul.run({data(operands.a), data(operands.b), c.data(), data(operands.bias), data(aux), data(workspace)}, nullptr);
  return c;
}

}  // namespace

TEST_CASE("a library whose ReLU keeps NaN passes the probe of every epilogue and type") {
  std::set<std::pair<Epilogue, DType>> asked;
  const auto prepare = [&](const MatmulCall& call) {
    asked.insert({call.epilogue, call.type});
    return make_host_matmul(call);
  };
  CHECK(relu_keeps_nan(prepare, run_probe_on_host));
  CHECK(asked.size() == 12);
  for (const auto& [epilogue, type] : asked) CHECK(applies_relu(epilogue));
}

TEST_CASE("a single kind of product whose ReLU loses NaN fails the probe") {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const Epilogue epilogue : {Epilogue::relu, Epilogue::relu_bias, Epilogue::relu_aux, Epilogue::relu_bias_aux}) {
      CHECK_FALSE(relu_keeps_nan(
          [&](const MatmulCall& call) {
            return make_host_matmul(call, call.type == type && call.epilogue == epilogue);
          },
          run_probe_on_host));
    }
  }
}

TEST_CASE("a library that fuses no ReLU has none that loses NaN") {
  CHECK(relu_keeps_nan([](const MatmulCall&) { return nullptr; }, run_probe_on_host));
}

TEST_CASE("where the library's ReLU loses NaN ReLU is a kernel of its own, which keeps it") {
  for (const Epilogue epilogue : {Epilogue::relu, Epilogue::relu_bias, Epilogue::relu_aux, Epilogue::relu_bias_aux}) {
    const MatmulCall call{.m = 4, .n = 8, .k = 4, .transpose_b = true, .epilogue = epilogue};
    CHECK(cublaslt_supports(call));
    CHECK_FALSE(cublaslt_supports(call, false));
  }
  for (const Epilogue epilogue : {Epilogue::none, Epilogue::bias, Epilogue::drelu, Epilogue::gelu_aux})
    CHECK(cublaslt_supports({.m = 4, .n = 8, .k = 4, .epilogue = epilogue}, false));
  CHECK(relu_keeps_nan(
      [](const MatmulCall& call) { return make_unfused_matmul(call, make_host_matmul(without_epilogue(call), true)); },
      run_probe_on_host));
}

}  // namespace trainer::cuda
