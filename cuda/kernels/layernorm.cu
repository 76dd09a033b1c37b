#include "cuda/kernels/layernorm.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/row_packs.cuh"

namespace trainer::cuda {

namespace {

// x and y may be the same: a thread writes what it alone has read, after all sums over the row are known. So may y and
// the addend, whose sum with x is read from then on.
template <typename T, int n, int row_threads>
__global__ void __launch_bounds__(row_block_threads)
    layernorm_forward_kernel(const T* x, const T* addend, T* sum, const float* weight, const float* bias, T* y,
                             float* mean, float* rstd, float eps, std::int64_t rows, std::int64_t columns) {
  wait_for_earlier_kernels();
  const std::int64_t row = row_of_thread<row_threads>();
  if (row >= rows) return;  // all threads of the row together
  const T* from = x + row * columns;
  RowPacks<T, n, row_threads> values(from, columns);
  if (addend != nullptr) {
    values.add(from, addend + row * columns, sum + row * columns);
    from = sum + row * columns;
  }
  const float count = static_cast<float>(columns);

  const bool centres = mean != nullptr;
  float guess = 0;
  if (centres) {
    float total = 0;
    values.visit(from, [&](std::int64_t, const Pack<float, n>& pack) {
      for (int i = 0; i < n; ++i) total += pack.values[i];
    });
    guess = row_sum<row_threads>(total) / count;
  }
  // The sum of deviations is what rounding left out of the mean.
  float rest = 0, squares = 0;
  values.visit(from, [&](std::int64_t, const Pack<float, n>& pack) {
    for (int i = 0; i < n; ++i) {
      const float deviation = pack.values[i] - guess;
      rest += deviation;
      squares += deviation * deviation;
    }
  });
  const float correction = centres ? row_sum<row_threads>(rest) / count : 0.0f;
  const float variance = row_sum<row_threads>(squares) / count - correction * correction;
  const float reciprocal = 1.0f / sqrtf((variance < 0 ? 0.0f : variance) + eps);
  if (threadIdx.x == 0) {
    if (centres) mean[row] = guess + correction;
    rstd[row] = reciprocal;
  }
  values.visit(from, [&](std::int64_t column, const Pack<float, n>& pack) {
    const Pack<float, n> scale = load_floats_or<n>(weight, column, 1.0f);
    const Pack<float, n> offset = load_floats_or<n>(bias, column, 0.0f);
    Pack<float, n> result;
    for (int i = 0; i < n; ++i) {
      const float normal = (pack.values[i] - guess - correction) * reciprocal;
      result.values[i] = normal * scale.values[i] + offset.values[i];
    }
    store_floats(y + row * columns + column, result);
  });
}

}  // namespace

void layernorm_forward(DType type, const LayerNormForward& operands, const LayerNormShape& shape, Stream stream) {
  if (shape.rows == 0 || shape.columns == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const T* const x = static_cast<const T*>(operands.x);
    const T* const addend = static_cast<const T*>(operands.addend);
    T* const sum = static_cast<T*>(operands.sum);
    T* const y = static_cast<T*>(operands.y);
    with_pack_width<T>(shape.columns, {x, addend, sum, y, operands.weight, operands.bias}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      with_row_threads<n>(shape.columns, [&](auto threads) {
        constexpr int row_threads = decltype(threads)::value;
        launch(layernorm_forward_kernel<T, n, row_threads>, row_grid<row_threads>(shape.rows), row_block<row_threads>(),
               stream, x, addend, sum, operands.weight, operands.bias, y, operands.mean, operands.rstd,
               static_cast<float>(operands.eps), shape.rows, shape.columns);
      });
    });
  });
}

}  // namespace trainer::cuda
