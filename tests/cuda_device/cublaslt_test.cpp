#include <cuda_runtime_api.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/device/cuda_call.h"
#include "cuda/library/cublaslt_descriptors.h"
#include "cuda/library/cublaslt_matmul.h"
#include "cuda/ops/unfused_matmul.h"
#include "engine/errors.h"
#include "engine/ops/linear.h"
#include "tests/cuda_device/skipped_without_gpu.h"
#include "tests/op_cases/op_case.h"

using namespace trainer;
using namespace trainer::cuda;

namespace {

constexpr Epilogue epilogues[] = {
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

std::vector<MatmulCall> calls() {
  struct Size {
    std::int64_t m, n, k;
  };
  std::vector<MatmulCall> result;
  for (const Size& size : {Size{1, 1, 1}, {1, 10, 1}, {7, 13, 11}, {128, 256, 784}, {33, 1000, 129}, {256, 10, 4099}}) {
    for (const Epilogue epilogue : epilogues)
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true})
          result.push_back({.m = size.m,
                            .n = size.n,
                            .k = size.k,
                            .transpose_a = transpose_a,
                            .transpose_b = transpose_b,
                            .epilogue = epilogue});
  }
  return result;
}

/// Numbers in the GPU's memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    require_cuda(cudaMalloc(&address_, std::max<std::size_t>(1, count_ * sizeof(T))), "allocate for a test");
    require_cuda(cudaMemcpy(address_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "copy for a test");
  }
  ~OnDevice() { cudaFree(address_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void* get() { return count_ == 0 ? nullptr : address_; }
  std::vector<T> values() {
    std::vector<T> result(count_);
    require_cuda(cudaMemcpy(result.data(), address_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "copy for a test");
    return result;
  }

 private:
  void* address_ = nullptr;
  std::size_t count_;
};

std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> result;
  for (const double value : random_values(count, seed)) result.push_back(static_cast<float>(value));
  return result;
}

struct Result {
  std::vector<float> c, bias, sums;
  std::vector<std::uint8_t> mask;
};

/// With `a` and `b`, and everything else made up from the call.
Result run(const MatmulCall& call, Matmul& matmul, const std::vector<float>& a, const std::vector<float>& b) {
  const bool has_bias = reads_bias(call.epilogue) || call.epilogue == Epilogue::bias_gradient_a;
  OnDevice<float> on_a(a), on_b(b), c(std::vector<float>(static_cast<std::size_t>(call.m * call.n), -7.0F)),
      bias(has_bias ? numbers(call.epilogue == Epilogue::bias_gradient_a ? call.m : call.n, 3) : std::vector<float>()),
      sums(has_gelu_aux(call.epilogue) ? numbers(call.m * call.n, 4) : std::vector<float>());
  std::vector<std::uint8_t> bits;
  if (has_relu_mask(call.epilogue)) {
    bits.resize(static_cast<std::size_t>(call.m * relu_mask_row_bytes(call.n)));
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint8_t>(i * 37 + 11);
  }
  OnDevice<std::uint8_t> mask(bits),
      workspace(std::vector<std::uint8_t>(static_cast<std::size_t>(matmul_workspace_bytes(call))));
  void* const aux = has_relu_mask(call.epilogue) ? mask.get() : sums.get();
  matmul.run({on_a.get(), on_b.get(), c.get(), bias.get(), aux, workspace.get()}, nullptr);
  require_cuda(cudaDeviceSynchronize(), "multiply");
  return {c.values(), bias.values(), sums.values(), mask.values()};
}

double largest_difference(const std::vector<float>& x, const std::vector<float>& y) {
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = std::fabs(x[i] - y[i]) / (1 + std::fabs(y[i]));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace

TEST_CASE("cuBLASLt takes every description: no attribute is of another size or value than it expects") {
  int num_described = 0;
  for (MatmulCall call : calls()) {
    if (!cublaslt_supports(call)) continue;
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      call.type = type;
      call.tf32 = call.transpose_a;
      const CublasLtCall described = describe_cublaslt(call);
      CublasLtDescriptors descriptors(described);
      CHECK_NOTHROW(descriptors.set_bias(&call));
      CHECK_NOTHROW(descriptors.set_aux(&call));
      ++num_described;
    }
  }
  CHECK(num_described > 400);
}

TEST_CASE("without a driver cuBLASLt's handle says what to look at") {
  int num_devices = 0;
  if (cudaGetDeviceCount(&num_devices) == cudaSuccess) return;
  CHECK_THROWS_WITH(CublasLtHandle(), Catch::Matchers::Contains("trainer doctor"));
}

TEST_CASE("a product by cuBLASLt is the sum of products, and fused epilogues are what kernels behind it compute") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const CublasLtHandle handle;
  for (const MatmulCall& call : calls()) {
    INFO("m " << call.m << ", n " << call.n << ", k " << call.k << ", transposed " << call.transpose_a
              << call.transpose_b << ", epilogue " << static_cast<int>(call.epilogue));
    const auto a = numbers(call.m * call.k, 1), b = numbers(call.k * call.n, 2);
    const auto matmul = make_cublaslt_matmul(call, handle);
    CHECK(matmul->is_fused() == cublaslt_supports(call, handle.keeps_nan()));
    const Result fused = run(call, *matmul, a, b);
    if (call.epilogue == Epilogue::none) {
      std::vector<float> sums;
      for (std::int64_t i = 0; i < call.m; ++i) {
        for (std::int64_t j = 0; j < call.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < call.k; ++l)
            sum +=
                static_cast<double>(a[static_cast<std::size_t>(call.transpose_a ? l * call.m + i : i * call.k + l)]) *
                static_cast<double>(b[static_cast<std::size_t>(call.transpose_b ? j * call.k + l : l * call.n + j)]);
          sums.push_back(static_cast<float>(sum));
        }
      }
      CHECK(largest_difference(fused.c, sums) < 1e-4);
      continue;
    }
    const auto unfused = make_unfused_matmul(call, make_cublaslt_matmul(without_epilogue(call), handle));
    const Result apart = run(call, *unfused, a, b);
    CHECK(largest_difference(fused.c, apart.c) < (has_gelu_aux(call.epilogue) ? 1e-3 : 1e-4));
    CHECK(largest_difference(fused.bias, apart.bias) < 1e-4);
    CHECK(largest_difference(fused.sums, apart.sums) < 1e-4);
    std::int64_t num_bits_differ = 0;
    for (std::int64_t i = 0; i < call.m && !fused.mask.empty(); ++i) {
      for (std::int64_t j = 0; j < call.n; ++j) {
        const auto byte = static_cast<std::size_t>(i * relu_mask_row_bytes(call.n) + j / 8);
        num_bits_differ += ((fused.mask[byte] ^ apart.mask[byte]) >> (j % 8)) & 1;
      }
    }
    // Sums that round to either side of zero.
    CHECK(num_bits_differ <= call.m * call.n / 10000);
  }
}

TEST_CASE("a product by cuBLASLt gives the same bits again") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const CublasLtHandle handle;
  for (const MatmulCall& call : calls()) {
    const auto a = numbers(call.m * call.k, 1), b = numbers(call.k * call.n, 2);
    const auto matmul = make_cublaslt_matmul(call, handle);
    const bool same = run(call, *matmul, a, b).c == run(call, *matmul, a, b).c;
    CHECK(same);
  }
}

TEST_CASE("NaN passes the ReLU of a product, whatever the library's makes of it") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  CublasLtHandle handle;
  WARN("cuBLASLt's ReLU " << (handle.keeps_nan() ? "keeps" : "loses") << " NaN here");
  for (const bool may_fuse : {true, false}) {
    if (!may_fuse) handle.set_keeps_nan(false);
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      for (const Epilogue epilogue :
           {Epilogue::relu, Epilogue::relu_bias, Epilogue::relu_aux, Epilogue::relu_bias_aux}) {
        for (const std::int64_t size : {13, 128, 1000}) {
          const MatmulCall call{.m = 64, .n = size, .k = 32, .transpose_b = true, .type = type, .epilogue = epilogue};
          INFO("n " << size << ", epilogue " << static_cast<int>(epilogue) << ", " << name_of(type));
          const auto matmul = make_cublaslt_matmul(call, handle);
          CHECK(matmul->is_fused() == handle.keeps_nan());
          if (type != DType::f32) continue;
          auto a = numbers(call.m * call.k, 1);
          a[0] = std::numeric_limits<float>::quiet_NaN();
          CHECK(std::isnan(run(call, *matmul, a, numbers(call.k * call.n, 2)).c[0]));
        }
      }
    }
  }
}
