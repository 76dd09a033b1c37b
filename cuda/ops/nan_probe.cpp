#include "cuda/ops/nan_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/half.h"
#include "engine/ops/linear.h"

namespace trainer::cuda {

namespace {

constexpr std::int64_t probe_rows = 64, probe_columns = 64, probe_depth = 32;

/// Ones, of which the first may be another number.
std::vector<std::byte> probe_numbers(DType type, std::int64_t count, float first = 1) {
  std::vector<float> numbers(static_cast<std::size_t>(count), 1.0F);
  numbers.front() = first;
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(type));
  narrow(type, numbers.data(), bytes.data(), count);
  return bytes;
}

/// The first row of the result is a sum with NaN in it, every other is of ones.
bool keeps_nan(const MatmulCall& call, Matmul& matmul, const RunProbe& run) {
  const auto element_bytes = static_cast<std::int64_t>(size_of(call.type));
  ProbeOperands operands{.a = probe_numbers(call.type, call.m * call.k, std::numeric_limits<float>::quiet_NaN()),
                         .b = probe_numbers(call.type, call.k * call.n),
                         .bias = {},
                         .c_bytes = call.m * call.n * element_bytes,
                         .workspace_bytes = matmul_workspace_bytes(call)};
  if (reads_bias(call.epilogue)) operands.bias = probe_numbers(call.type, call.n);
  if (has_relu_mask(call.epilogue)) operands.aux_bytes = call.m * relu_mask_row_bytes(call.n);
  const std::vector<std::byte> result = run(matmul, operands);
  std::vector<float> first_row(static_cast<std::size_t>(call.n));
  widen(call.type, result.data(), first_row.data(), call.n);
  return std::all_of(first_row.begin(), first_row.end(), [](float number) { return std::isnan(number); });
}

}  // namespace

bool relu_keeps_nan(const PrepareFused& prepare, const RunProbe& run) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const Epilogue epilogue : {Epilogue::relu, Epilogue::relu_bias, Epilogue::relu_aux, Epilogue::relu_bias_aux}) {
      const MatmulCall call{.m = probe_rows,
                            .n = probe_columns,
                            .k = probe_depth,
                            .transpose_b = true,
                            .type = type,
                            .epilogue = epilogue};
      const std::unique_ptr<Matmul> matmul = prepare(call);
      if (matmul != nullptr && !keeps_nan(call, *matmul, run)) return false;
    }
  }
  return true;
}

}  // namespace trainer::cuda
