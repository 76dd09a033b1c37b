#include "tests/cuda/host_matmul.h"

#include <cmath>
#include <cstring>

#include "cuda/kernels/element.h"
#include "engine/ops/linear.h"

namespace trainer::cuda {

namespace {

// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))
constexpr double gelu_scale = 0.79788456080286535588;
constexpr double gelu_cubic = 0.044715;

double gelu_of(double x) { return x / 2 * (1 + std::tanh(gelu_scale * (x + gelu_cubic * x * x * x))); }

double gelu_slope_of(double x) {
  const double t = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
}

bool reads_aux(Epilogue epilogue) { return epilogue == Epilogue::dgelu || epilogue == Epilogue::drelu; }

void require_operands(const MatmulCall& call, const MatmulOperands& operands) {
  const auto given_where_used = [](const void* operand, bool is_used) {
    require_internal((operand != nullptr) == is_used, "a product has exactly the operands that its description names");
  };
  given_where_used(operands.a, true);
  given_where_used(operands.b, true);
  given_where_used(operands.c, true);
  given_where_used(operands.bias, reads_bias(call.epilogue) || call.epilogue == Epilogue::bias_gradient_a);
  given_where_used(operands.aux, has_gelu_aux(call.epilogue) || has_relu_mask(call.epilogue));
  given_where_used(operands.workspace, matmul_workspace_bytes(call) > 0);
}

void require_alignment(const MatmulCall& call, const MatmulOperands& operands) {
  for (const void* address : {operands.a, operands.b, static_cast<const void*>(operands.c)})
    require_internal(reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(call.alignment) == 0,
                     "matrices begin where the description of their product says");
}

/// Matrices of T, results of R.
template <typename T, typename R>
class HostMatmul final : public Matmul {
 public:
  HostMatmul(const MatmulCall& call, bool relu_hides_nan) : call_(call), relu_hides_nan_(relu_hides_nan) {}

  void run(const MatmulOperands& operands, Stream) override {
    require_operands(call_, operands);
    require_alignment(call_, operands);
    if (operands.workspace != nullptr)
      std::memset(operands.workspace, 0x5A, static_cast<std::size_t>(matmul_workspace_bytes(call_)));
    operands_ = operands;
    if (has_relu_mask(call_.epilogue) && !reads_aux(call_.epilogue))
      std::memset(operands.aux, 0, static_cast<std::size_t>(call_.m * relu_mask_row_bytes(call_.n)));
    for (std::int64_t i = 0; i < call_.m; ++i) {
      for (std::int64_t j = 0; j < call_.n; ++j)
        c(i, j) = stored(with_epilogue(i, j, (call_.adds ? loaded(c(i, j)) : 0) + product(i, j)));
    }
    if (call_.epilogue == Epilogue::bias_gradient_a)
      for (std::int64_t i = 0; i < call_.m; ++i)
        bias_address()[i] = stored((call_.adds ? loaded(bias_address()[i]) : 0) + row_sum(i));
  }

 private:
  double relu_of(double x) const { return relu_hides_nan_ ? (x > 0 ? x : 0) : (x < 0 ? 0 : x); }
  static R stored(double value) { return from_float<R>(static_cast<float>(value)); }
  template <typename Element>
  static double loaded(Element value) {
    return static_cast<double>(to_float(value));
  }

  R& c(std::int64_t i, std::int64_t j) const { return static_cast<R*>(operands_.c)[i * call_.n + j]; }
  R* bias_address() const { return static_cast<R*>(operands_.bias); }

  double a(std::int64_t i, std::int64_t l) const {
    return loaded(static_cast<const T*>(operands_.a)[call_.transpose_a ? l * call_.m + i : i * call_.k + l]);
  }
  double b(std::int64_t l, std::int64_t j) const {
    return loaded(static_cast<const T*>(operands_.b)[call_.transpose_b ? j * call_.k + l : l * call_.n + j]);
  }
  double product(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t l = 0; l < call_.k; ++l) sum += a(i, l) * b(l, j);
    return sum;
  }
  double row_sum(std::int64_t i) const {
    double sum = 0;
    for (std::int64_t l = 0; l < call_.k; ++l) sum += a(i, l);
    return sum;
  }
  double bias(std::int64_t j) const { return loaded(bias_address()[j]); }
  R& sum_before_gelu(std::int64_t i, std::int64_t j) const { return static_cast<R*>(operands_.aux)[i * call_.n + j]; }
  std::uint8_t& mask_byte(std::int64_t i, std::int64_t j) const {
    return static_cast<std::uint8_t*>(operands_.aux)[i * relu_mask_row_bytes(call_.n) + j / 8];
  }

  double gelu_keeping(std::int64_t i, std::int64_t j, double x) const {
    sum_before_gelu(i, j) = stored(x);
    return gelu_of(x);
  }
  double relu_keeping(std::int64_t i, std::int64_t j, double x) const {
    if (x > 0) mask_byte(i, j) = static_cast<std::uint8_t>(mask_byte(i, j) | 1U << (j % 8));
    return relu_of(x);
  }

  double with_epilogue(std::int64_t i, std::int64_t j, double x) const {
    switch (call_.epilogue) {
      case Epilogue::none:
      case Epilogue::bias_gradient_a:
        return x;
      case Epilogue::bias:
        return x + bias(j);
      case Epilogue::relu:
        return relu_of(x);
      case Epilogue::relu_bias:
        return relu_of(x + bias(j));
      case Epilogue::gelu_bias_aux:
        return gelu_keeping(i, j, x + bias(j));
      case Epilogue::gelu_aux:
        return gelu_keeping(i, j, x);
      case Epilogue::dgelu:
        return x * gelu_slope_of(loaded(sum_before_gelu(i, j)));
      case Epilogue::drelu:
        return (mask_byte(i, j) >> (j % 8) & 1) != 0 ? x : 0;
      case Epilogue::relu_bias_aux:
        return relu_keeping(i, j, x + bias(j));
      case Epilogue::relu_aux:
        return relu_keeping(i, j, x);
    }
    throw InternalError("internal error: a product with no known epilogue");
  }

  MatmulCall call_;
  bool relu_hides_nan_;
  MatmulOperands operands_;
};

}  // namespace

std::unique_ptr<Matmul> make_host_matmul(const MatmulCall& call, bool relu_hides_nan) {
  std::unique_ptr<Matmul> matmul;
  with_element_type(call.type, [&](auto type) {
    using T = typename decltype(type)::type;
    if (call.f32_result) {
      matmul = std::make_unique<HostMatmul<T, float>>(call, relu_hides_nan);
    } else {
      matmul = std::make_unique<HostMatmul<T, T>>(call, relu_hides_nan);
    }
  });
  return matmul;
}

}  // namespace trainer::cuda
