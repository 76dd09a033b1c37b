#include "cuda/kernels/matmul_epilogue.h"

#include "cuda/kernels/bias_gradient.h"
#include "cuda/kernels/element.h"
#include "cuda/launch/launch.h"
#include "engine/ops/linear.h"

namespace trainer::cuda {
namespace {

constexpr int threads = 256;
/// Columns of one thread: a byte of the mask.
constexpr int thread_columns = 8;

// gelu's approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
constexpr float gelu_tanh_slope = 0.79788456080286536f;
constexpr float gelu_tanh_cubic = 0.044715f;

__device__ __forceinline__ float gelu_tanh_part(float x) {
  return tanhf(gelu_tanh_slope * (x + gelu_tanh_cubic * x * x * x));
}

__device__ __forceinline__ float gelu_slope(float x) {
  const float t = gelu_tanh_part(x);
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * gelu_tanh_slope * (1.0f + 3.0f * gelu_tanh_cubic * x * x);
}

/// The columns from `first` of one row; what the epilogue does is settled for all threads alike.
template <typename T>
struct RowPart {
  Epilogue epilogue;
  T* c;
  const T* bias;
  T* sums;             ///< before GELU
  std::uint8_t* mask;  ///< the byte of these columns

  __device__ float with_bias(float x, std::int64_t j) const { return reads_bias(epilogue) ? x + to_float(bias[j]) : x; }

  /// A comparison keeps NaN, which a maximum would not.
  __device__ float relu(float x) const { return x < 0 ? 0.0f : x; }

  __device__ void compute(std::int64_t first, int count) const {
    unsigned bits = 0;
    for (int i = 0; i < count; ++i) {
      const std::int64_t j = first + i;
      float x = with_bias(to_float(c[j]), j);
      switch (epilogue) {
        case Epilogue::none:
        case Epilogue::bias:
        case Epilogue::bias_gradient_a:
          break;
        case Epilogue::relu:
        case Epilogue::relu_bias:
          x = relu(x);
          break;
        case Epilogue::relu_aux:
        case Epilogue::relu_bias_aux:
          bits |= x > 0 ? 1u << i : 0u;
          x = relu(x);
          break;
        case Epilogue::gelu_aux:
        case Epilogue::gelu_bias_aux:
          sums[j] = from_float<T>(x);
          x = 0.5f * x * (1.0f + gelu_tanh_part(x));
          break;
        case Epilogue::dgelu:
          x *= gelu_slope(to_float(sums[j]));
          break;
        case Epilogue::drelu:
          if ((*mask >> i & 1) == 0) x = 0;
          break;
      }
      c[j] = from_float<T>(x);
    }
    if (epilogue == Epilogue::relu_aux || epilogue == Epilogue::relu_bias_aux) *mask = static_cast<std::uint8_t>(bits);
  }
};

template <typename T>
__global__ void __launch_bounds__(threads)
    matmul_epilogue_kernel(Epilogue epilogue, T* c, const T* bias, void* aux, std::int64_t m, std::int64_t n) {
  wait_for_earlier_kernels();
  const std::int64_t parts = (n + thread_columns - 1) / thread_columns;
  const std::int64_t index = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (index >= m * parts) return;
  const std::int64_t row = index / parts, part = index % parts;
  const std::int64_t first = part * thread_columns;
  RowPart<T> work{epilogue, c + row * n, bias, nullptr, nullptr};
  if (has_gelu_aux(epilogue)) work.sums = static_cast<T*>(aux) + row * n;
  if (has_relu_mask(epilogue)) work.mask = static_cast<std::uint8_t*>(aux) + row * relu_mask_row_bytes(n) + part;
  work.compute(first, n - first < thread_columns ? static_cast<int>(n - first) : thread_columns);
}

template <typename T>
void start(const MatmulCall& call, const MatmulOperands& operands, Stream stream) {
  const std::int64_t count = call.m * num_blocks(call.n, thread_columns);
  const std::int64_t blocks = num_blocks(count, threads);
  require_internal(blocks <= 0x7FFFFFFF, "a product has fewer elements than a grid has threads");
  launch(matmul_epilogue_kernel<T>, {static_cast<unsigned>(blocks)}, {threads}, stream, call.epilogue,
         static_cast<T*>(operands.c), static_cast<const T*>(operands.bias), operands.aux, call.m, call.n);
}

}  // namespace

void matmul_epilogue(const MatmulCall& call, const MatmulOperands& operands, Stream stream) {
  if (call.epilogue == Epilogue::none) return;
  if (call.epilogue == Epilogue::bias_gradient_a) {
    require_internal(call.transpose_a, "a bias gradient is summed over the rows of A in memory");
    return bias_gradient(call.type, operands.a, operands.bias, call.k, call.m, operands.workspace, stream,
                         {.f32_result = result_type(call) == DType::f32, .adds = call.adds});
  }
  with_element_type(result_type(call),
                    [&](auto element) { start<typename decltype(element)::type>(call, operands, stream); });
}

}  // namespace trainer::cuda
