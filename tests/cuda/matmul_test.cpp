#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "cuda/kernels/element.h"
#include "cuda/ops/cublaslt_call.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/linear_call.h"
#include "cuda/ops/unfused_matmul.h"
#include "engine/cpu/cpu_device.h"
#include "tests/cuda/host_cublaslt.h"
#include "tests/cuda/host_matmul.h"
#include "tests/op_cases/op_case.h"

namespace trainer::cuda {

namespace {

constexpr Epilogue all_epilogues[] = {
    Epilogue::none,
    Epilogue::bias,
    Epilogue::relu,
    Epilogue::relu_bias,
    Epilogue::dgelu,
    Epilogue::gelu_bias_aux,
    Epilogue::gelu_aux,
    Epilogue::drelu,
    Epilogue::relu_bias_aux,
    Epilogue::relu_aux,
    Epilogue::bias_gradient_a,
};

struct MatmulSize {
  std::int64_t m, n, k;
};
constexpr MatmulSize matmul_sizes[] = {{1, 1, 1},     {2, 3, 5},   {7, 8, 13},   {5, 129, 2},
                                       {33, 128, 17}, {3, 264, 1}, {130, 1, 31}, {128, 3, 200}};

/// Operands of one product in memory of their own.
struct Product {
  explicit Product(const MatmulCall& call, int seed = 1)
      : a(random_values(call.m * call.k, seed)),
        b(random_values(call.k * call.n, seed + 1)),
        bias(random_values(call.epilogue == Epilogue::bias_gradient_a ? call.m : call.n, seed + 2)),
        sums(random_values(call.m * call.n, seed + 3, -3, 3)) {
    for (const double value : a) a_.push_back(static_cast<float>(value));
    for (const double value : b) b_.push_back(static_cast<float>(value));
    for (const double value : bias) bias_.push_back(static_cast<float>(value));
    c_.assign(static_cast<std::size_t>(call.m * call.n), std::nanf(""));
    if (call.adds)
      for (std::size_t i = 0; i < c_.size(); ++i) c_[i] = static_cast<float>(i % 17) / 4 - 2;
    if (has_gelu_aux(call.epilogue))
      for (const double value : sums) sums_.push_back(static_cast<float>(value));
    if (has_relu_mask(call.epilogue)) {
      mask_.assign(static_cast<std::size_t>(call.m * relu_mask_row_bytes(call.n)), 0);
      for (std::size_t i = 0; i < mask_.size(); ++i) mask_[i] = static_cast<std::uint8_t>(i * 37 + 11);
    }
    workspace_.assign(static_cast<std::size_t>(matmul_workspace_bytes(call)), 0);
    epilogue_ = call.epilogue;
  }

  MatmulOperands addresses() {
    MatmulOperands operands{.a = a_.data(), .b = b_.data(), .c = c_.data()};
    if (reads_bias(epilogue_) || epilogue_ == Epilogue::bias_gradient_a) operands.bias = bias_.data();
    if (has_gelu_aux(epilogue_)) operands.aux = sums_.data();
    if (has_relu_mask(epilogue_)) operands.aux = mask_.data();
    if (!workspace_.empty()) operands.workspace = workspace_.data();
    return operands;
  }

  Values a, b, bias, sums;
  std::vector<float> a_, b_, bias_, c_, sums_;
  std::vector<std::uint8_t> mask_, workspace_;

 private:
  Epilogue epilogue_;
};

double largest_difference(const std::vector<float>& x, const std::vector<float>& y) {
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!(difference <= largest)) largest = difference;  // NaN too
  }
  return largest;
}

/// The bits of the mask that stand for an element.
std::vector<bool> bits_of(const MatmulCall& call, const std::vector<std::uint8_t>& mask) {
  std::vector<bool> bits;
  if (!mask.empty()) {
    for (std::int64_t i = 0; i < call.m; ++i)
      for (std::int64_t j = 0; j < call.n; ++j)
        bits.push_back((mask[static_cast<std::size_t>(i * relu_mask_row_bytes(call.n) + j / 8)] >> (j % 8) & 1) != 0);
  }
  return bits;
}

void check_alike(const MatmulCall& call, const Product& one, const Product& other) {
  CHECK(largest_difference(one.c_, other.c_) < 2e-5);
  CHECK(largest_difference(one.bias_, other.bias_) < 2e-5);
  CHECK(largest_difference(one.sums_, other.sums_) < 2e-5);
  const bool same_bits = bits_of(call, one.mask_) == bits_of(call, other.mask_);
  CHECK(same_bits);
}

template <typename Function>
void for_every_call(Function&& function) {
  for (const MatmulSize& size : matmul_sizes) {
    for (const Epilogue epilogue : all_epilogues) {
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          MatmulCall call{.m = size.m,
                          .n = size.n,
                          .k = size.k,
                          .transpose_a = transpose_a,
                          .transpose_b = transpose_b,
                          .epilogue = epilogue};
          INFO("m " << call.m << ", n " << call.n << ", k " << call.k << ", transposed " << transpose_a << transpose_b
                    << ", epilogue " << static_cast<int>(epilogue));
          if (epilogue == Epilogue::bias_gradient_a && !transpose_a) continue;
          function(call);
          if (epilogue != Epilogue::none && epilogue != Epilogue::bias_gradient_a) continue;
          INFO("added to what is there");
          call.adds = true;
          function(call);
        }
      }
    }
  }
}

/// A CUDA library whose products run on the host.
class HostProducts final : public Library {
 public:
  std::unique_ptr<Matmul> prepare(const MatmulCall& call) override { return make_host_matmul(call); }
  std::unique_ptr<Convolution> prepare(const ConvolutionCall&) override { throw InternalError("no convolutions here"); }
  ConvolutionPlanner& convolution_planner() override { throw InternalError("no convolutions here"); }
};

using Maker = std::unique_ptr<Kernel> (*)(const Op&, CudaContext&);

std::vector<std::vector<std::byte>> run_on_host(Maker make, const OpCase& op_case) {
  HostProducts library;
  CudaContext context{.library = &library};
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<void*> input_addresses, output_addresses;
  for (std::size_t i = 0; i < op_case.op.inputs.size(); ++i)
    inputs.push_back(to_bytes(op_case.op.inputs[i], op_case.inputs[i]));
  for (const TensorType& type : op_case.op.outputs)
    outputs.emplace_back(static_cast<std::size_t>(type.num_bytes()), std::byte{0xFF});
  for (auto& bytes : inputs) input_addresses.push_back(bytes.data());
  for (auto& bytes : outputs) output_addresses.push_back(bytes.data());
  std::vector<std::byte> workspace(static_cast<std::size_t>(compute_workspace_bytes(op_case.op, {})));
  make(op_case.op, context)->run({input_addresses, output_addresses, workspace.empty() ? nullptr : workspace.data()});
  return outputs;
}

void check_cases(Maker make, const std::vector<OpCase>& cases) {
  const auto cpu = make_cpu_device(2);
  for (const OpCase& op_case : cases) {
    INFO(op_case.name);
    const auto outputs = run_on_host(make, op_case);
    const OpResult expected = run_op(*cpu, op_case, std::byte{0});
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Values computed = to_values(op_case.op.outputs[i], outputs[i]);
      const Values by_cpu = to_values(op_case.op.outputs[i], expected.outputs[i]);
      double from_cpu = 0, from_reference = 0;
      for (std::size_t e = 0; e < computed.size(); ++e) {
        from_cpu = std::max(from_cpu, std::fabs(computed[e] - by_cpu[e]) / (1 + std::fabs(by_cpu[e])));
        const double reference = op_case.expected.outputs[i][e];
        if (!std::isnan(reference))
          from_reference = std::max(from_reference, std::fabs(computed[e] - reference) / (1 + std::fabs(reference)));
      }
      CHECK(from_cpu < 2e-5);
      CHECK(from_reference < 2e-5);
    }
  }
}

}  // namespace

TEST_CASE("the products of the linear ops are what the CPU computes, and their gradients central differences") {
  check_cases(make_linear_kernel, linear_cases());
  check_cases(make_linear_backward_input_kernel, linear_backward_input_cases());
  check_cases(make_linear_backward_weight_kernel, linear_backward_weight_cases());
}

TEST_CASE("a product with its epilogue is what sums in double say") {
  for_every_call([](const MatmulCall& call) {
    Product operands(call);
    const auto bits = bits_of(call, operands.mask_);
    const std::vector<float> earlier_c = operands.c_, earlier_bias = operands.bias_;
    make_host_matmul(call)->run(operands.addresses(), nullptr);
    for (std::int64_t i = 0; i < call.m; ++i) {
      for (std::int64_t j = 0; j < call.n; ++j) {
        double x = call.adds ? static_cast<double>(earlier_c[static_cast<std::size_t>(i * call.n + j)]) : 0;
        for (std::int64_t l = 0; l < call.k; ++l)
          x += operands.a[static_cast<std::size_t>(call.transpose_a ? l * call.m + i : i * call.k + l)] *
               operands.b[static_cast<std::size_t>(call.transpose_b ? j * call.k + l : l * call.n + j)];
        const auto at = static_cast<std::size_t>(i * call.n + j);
        if (reads_bias(call.epilogue)) x += operands.bias[static_cast<std::size_t>(j)];
        const auto gelu = [](double v) { return v / 2 * std::erfc(-v / std::sqrt(2)); };
        double expected = x, tolerance = 2e-6;
        switch (call.epilogue) {
          case Epilogue::relu:
          case Epilogue::relu_bias:
          case Epilogue::relu_aux:
          case Epilogue::relu_bias_aux:
            expected = std::max(x, 0.0);
            break;
          case Epilogue::gelu_aux:
          case Epilogue::gelu_bias_aux:
            // The approximation is within 5e-4 of the exact function.
            expected = gelu(x);
            tolerance = 5e-4;
            break;
          case Epilogue::dgelu:
            expected = x * (gelu(operands.sums[at] + 1e-4) - gelu(operands.sums[at] - 1e-4)) / 2e-4;
            tolerance = 2e-3;
            break;
          case Epilogue::drelu:
            expected = bits[at] ? x : 0;
            break;
          default:
            break;
        }
        REQUIRE(std::fabs(static_cast<double>(operands.c_[at]) - expected) <= tolerance * (1 + std::fabs(x)));
        if (has_gelu_aux(call.epilogue) && call.epilogue != Epilogue::dgelu)
          REQUIRE(static_cast<double>(operands.sums_[at]) == Approx(x).margin(1e-5));
        if (has_relu_mask(call.epilogue) && call.epilogue != Epilogue::drelu)
          REQUIRE(bits_of(call, operands.mask_)[at] == (x > 0));
      }
      if (call.epilogue != Epilogue::bias_gradient_a) continue;
      const auto at = static_cast<std::size_t>(i);
      double sum = call.adds ? static_cast<double>(earlier_bias[at]) : 0;
      for (std::int64_t l = 0; l < call.k; ++l) sum += operands.a[static_cast<std::size_t>(l * call.m + i)];
      REQUIRE(static_cast<double>(operands.bias_[at]) == Approx(sum).margin(2e-6));
    }
  });
}

TEST_CASE("cuBLASLt, told of a product in columns, computes it with every epilogue that it has") {
  int num_described = 0;
  for_every_call([&](const MatmulCall& call) {
    if (!cublaslt_supports(call)) return;
    ++num_described;
    Product rows(call), columns(call);
    make_host_matmul(call)->run(rows.addresses(), nullptr);
    run_host_cublaslt(describe_cublaslt(call), cublaslt_operands(columns.addresses()));
    check_alike(call, rows, columns);
  });
  CHECK(num_described > 200);
}

TEST_CASE("an epilogue that cuBLASLt lacks is a kernel behind the product, with the same result") {
  int num_unsupported = 0;
  for_every_call([&](const MatmulCall& call) {
    num_unsupported += cublaslt_supports(call) ? 0 : 1;
    Product fused(call), apart(call);
    make_host_matmul(call)->run(fused.addresses(), nullptr);
    const auto unfused = make_unfused_matmul(call, make_host_matmul(without_epilogue(call)));
    CHECK_FALSE(unfused->is_fused());
    unfused->run(apart.addresses(), nullptr);
    check_alike(call, fused, apart);
  });
  CHECK(num_unsupported > 0);
}

TEST_CASE("a bias gradient behind the product finds room for its sums, also where the product needs none") {
  MatmulCall call{.m = 128, .n = 10, .k = 255, .transpose_a = true, .epilogue = Epilogue::bias_gradient_a};
  CHECK(matmul_workspace_bytes(without_epilogue(call)) == 0);
  CHECK(matmul_workspace_bytes(call) == 4 * 128 * 4);  // four parts of 64 rows
  CHECK(describe_cublaslt(call).workspace_bytes == matmul_workspace_bytes(call));
  call.k = 256;
  CHECK(matmul_workspace_bytes(call) == matmul_workspace_bytes(without_epilogue(call)));
  call.transpose_a = false;
  Product operands(call);
  CHECK_THROWS_AS(
      make_unfused_matmul(call, make_host_matmul(without_epilogue(call)))->run(operands.addresses(), nullptr),
      InternalError);
}

TEST_CASE("16-bit products add in f32 and round once") {
  for (const DType type : {DType::f16, DType::bf16}) {
    with_element_type(type, [&](auto element) {
      using T = typename decltype(element)::type;
      const MatmulCall call{.m = 3, .n = 5, .k = 67, .type = type, .epilogue = Epilogue::bias};
      const Values a = random_values(call.m * call.k, 1), b = random_values(call.k * call.n, 2),
                   bias = random_values(call.n, 3);
      const auto stored = [](const Values& values) {
        std::vector<T> elements;
        for (const double value : values) elements.push_back(from_float<T>(static_cast<float>(value)));
        return elements;
      };
      std::vector<T> a_stored = stored(a), b_stored = stored(b), bias_stored = stored(bias), c(15);
      make_host_matmul(call)->run(
          {.a = a_stored.data(), .b = b_stored.data(), .c = c.data(), .bias = bias_stored.data()}, nullptr);
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 5; ++j) {
          float sum = to_float(bias_stored[j]);
          for (std::size_t l = 0; l < 67; ++l) sum += to_float(a_stored[i * 67 + l]) * to_float(b_stored[l * 5 + j]);
          CHECK(to_float(c[i * 5 + j]) ==
                Approx(to_float(from_float<T>(sum))).epsilon(type == DType::f16 ? 1e-3 : 8e-3));
        }
      }
    });
  }
}

TEST_CASE("products of 16-bit matrices give f32 sums and bias gradients, and add to them, as sums in double say") {
  for (const DType type : {DType::f16, DType::bf16}) {
    with_element_type(type, [&](auto element) {
      using T = typename decltype(element)::type;
      for (const bool adds : {false, true}) {
        // k beyond one part of the bias gradient's rows, so that its second launch adds as well.
        const MatmulCall call{.m = 129,
                              .n = 3,
                              .k = 131,
                              .transpose_a = true,
                              .type = type,
                              .epilogue = Epilogue::bias_gradient_a,
                              .f32_result = true,
                              .adds = adds};
        CHECK_FALSE(cublaslt_supports(call));
        const CublasLtCall described = describe_cublaslt(without_epilogue(call));
        CHECK(described.type == type);
        CHECK(described.result_type == DType::f32);
        CHECK(described.beta == (adds ? 1.0F : 0.0F));
        std::vector<T> a, b;
        for (const double value : random_values(call.k * call.m, 1))
          a.push_back(from_float<T>(static_cast<float>(value)));
        for (const double value : random_values(call.k * call.n, 2))
          b.push_back(from_float<T>(static_cast<float>(value)));
        const auto m = static_cast<std::size_t>(call.m), n = static_cast<std::size_t>(call.n);
        std::vector<float> c(m * n, 0.75F), bias(m, -0.5F);
        std::vector<std::byte> workspace(static_cast<std::size_t>(matmul_workspace_bytes(call)));
        make_unfused_matmul(call, make_host_matmul(without_epilogue(call)))
            ->run({.a = a.data(), .b = b.data(), .c = c.data(), .bias = bias.data(), .workspace = workspace.data()},
                  nullptr);
        for (std::size_t i = 0; i < m; ++i) {
          double of_bias = adds ? -0.5 : 0;
          for (std::size_t l = 0; l < 131; ++l) of_bias += static_cast<double>(to_float(a[l * m + i]));
          REQUIRE(static_cast<double>(bias[i]) == Approx(of_bias).margin(1e-5));
          for (std::size_t j = 0; j < n; ++j) {
            double sum = adds ? 0.75 : 0;
            for (std::size_t l = 0; l < 131; ++l)
              sum += static_cast<double>(to_float(a[l * m + i])) * static_cast<double>(to_float(b[l * n + j]));
            REQUIRE(static_cast<double>(c[i * n + j]) == Approx(sum).margin(1e-5));
          }
        }
      }
    });
  }
}

TEST_CASE("a bias beside a wider result is as wide, fused and behind the product") {
  const MatmulCall call{
      .m = 5, .n = 9, .k = 7, .transpose_b = true, .type = DType::bf16, .epilogue = Epilogue::bias, .f32_result = true};
  std::vector<bfloat16> a, b;
  for (int i = 0; i < 35; ++i) a.push_back(from_float<bfloat16>(static_cast<float>(i % 5) - 2));
  for (int i = 0; i < 63; ++i) b.push_back(from_float<bfloat16>(static_cast<float>(i % 7) / 4));
  std::vector<float> bias(9, 1 + 0x1p-12F), fused(45), apart(45);
  make_host_matmul(call)->run({.a = a.data(), .b = b.data(), .c = fused.data(), .bias = bias.data()}, nullptr);
  make_unfused_matmul(call, make_host_matmul(without_epilogue(call)))
      ->run({.a = a.data(), .b = b.data(), .c = apart.data(), .bias = bias.data()}, nullptr);
  CHECK(fused == apart);
  float first = bias[0];
  for (std::size_t l = 0; l < 7; ++l) first += to_float(a[l]) * to_float(b[l]);
  CHECK(fused[0] == first);
}

TEST_CASE("a product that lacks an operand, or has one too many, is refused") {
  const MatmulCall call{.m = 2, .n = 3, .k = 4, .epilogue = Epilogue::bias};
  Product operands(call);
  MatmulOperands addresses = operands.addresses();
  addresses.bias = nullptr;
  CHECK_THROWS_AS(make_host_matmul(call)->run(addresses, nullptr), InternalError);
  CHECK_THROWS_AS(make_host_matmul(without_epilogue(call))->run(operands.addresses(), nullptr), InternalError);
  CHECK_THROWS_AS(describe_cublaslt({.m = 2, .n = 3, .k = 1, .epilogue = Epilogue::drelu}), InternalError);
}

}  // namespace trainer::cuda
