#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr std::int64_t tile = 16;  // a cache line of each of 16 rows and columns at once

/// y (columns, rows) = x (rows, columns)ᵀ
TRAINER_SIMD void transpose(const float* __restrict x, float* __restrict y, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; row += tile) {
    const std::int64_t num_rows = rows - row < tile ? rows - row : tile;
    for (std::int64_t column = 0; column < columns; column += tile) {
      const std::int64_t num_columns = columns - column < tile ? columns - column : tile;
      for (std::int64_t j = 0; j < num_columns; ++j) {
        float* const to = y + (column + j) * rows + row;
        const float* const from = x + row * columns + column + j;
        for (std::int64_t i = 0; i < num_rows; ++i) to[i] = from[i * columns];
      }
    }
  }
}

/// Transposes each of `images` matrices.
std::unique_ptr<CpuKernel> make_transpose_kernel(std::int64_t images, std::int64_t rows, std::int64_t columns,
                                                 const CpuContext& context) {
  return make_kernel([images, rows, columns, threads = context.num_threads](const OperandAddresses& addresses,
                                                                            const StepScalars&) {
    const float* const x = input(addresses, 0);
    float* const y = output(addresses, 0);
    const std::int64_t elements = rows * columns;
    parallel_tasks(images * elements <= serial_elements ? 1 : threads, images,
                   [&](std::int64_t image) { transpose(x + image * elements, y + image * elements, rows, columns); });
  });
}

std::unique_ptr<CpuKernel> make_flatten_kernel(const Op& op, CpuContext& context) {
  const Shape& image = op.inputs[0].shape;
  const std::int64_t channels = image.rank() == 4 ? image[3] : 1;
  return make_transpose_kernel(image[0], image.num_elements() / image[0] / channels, channels, context);
}

std::unique_ptr<CpuKernel> make_flatten_backward_kernel(const Op& op, CpuContext& context) {
  const Shape& image = op.outputs[0].shape;
  const std::int64_t channels = image.rank() == 4 ? image[3] : 1;
  return make_transpose_kernel(image[0], channels, image.num_elements() / image[0] / channels, context);
}

}  // namespace

const CpuOp flatten_on_cpu = {make_flatten_kernel, cut_by_image};
const CpuOp flatten_backward_on_cpu = {make_flatten_backward_kernel, cut_by_image};

}  // namespace trainer
