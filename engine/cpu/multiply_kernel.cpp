#include <algorithm>

#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void multiply_loop(const float* a, const float* b, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}

/// Rows [begin, end) of x (images · pixels, channels) by their image's gate.
TRAINER_SIMD void multiply_rows(const float* x, const float* gate, float* y, std::int64_t begin, std::int64_t end,
                                std::int64_t pixels, std::int64_t channels) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const of_image = gate + row / pixels * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) y[row * channels + c] = x[row * channels + c] * of_image[c];
  }
}

constexpr std::int64_t gate_channels = 64;    // whose sums are held in registers
constexpr std::int64_t pixels_per_sum = 128;  // of f32: bounds the rounding error whatever the image

/// sums (count) = Σ dy · x over the pixels of one image, of channels that lie `channels` apart from pixel to pixel.
TRAINER_SIMD void sum_products(const float* dy, const float* x, float* sums, std::int64_t pixels, std::int64_t channels,
                               std::int64_t count) {
  double total[gate_channels] = {};
  for (std::int64_t first = 0; first < pixels; first += pixels_per_sum) {
    const std::int64_t last = first + pixels_per_sum < pixels ? first + pixels_per_sum : pixels;
    float sum[gate_channels] = {};
    for (std::int64_t pixel = first; pixel < last; ++pixel) {
      const std::int64_t at = pixel * channels;
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) sum[c] += dy[at + c] * x[at + c];
    }
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) total[c] += static_cast<double>(sum[c]);
  }
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) sums[c] = static_cast<float>(total[c]);
}

std::unique_ptr<CpuKernel> make_multiply_kernel(const Op& op, CpuContext& context) {
  const TensorType& x = op.inputs[0];
  if (!is_gate(x, op.inputs[1])) {
    return make_kernel([type = x.dtype, count = x.num_elements(), threads = context.num_threads](
                           const OperandAddresses& addresses, const StepScalars&) {
      for_elements<2>(type, threads, count, {addresses.inputs[0], addresses.inputs[1]}, addresses.outputs[0],
                      [](const auto& factors, float* y, std::int64_t, std::int64_t num_elements) {
                        multiply_loop(factors[0], factors[1], y, num_elements);
                      });
    });
  }
  const std::int64_t pixels = x.shape[1] * x.shape[2], channels = x.shape[3], rows = x.shape[0] * pixels;
  const RowParts blocks = row_parts(rows, std::max<std::int64_t>(1, 8192 / channels), rows);
  return make_kernel([pixels, channels, blocks, threads = rows * channels <= serial_elements ? 1 : context.num_threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    parallel_tasks(threads, blocks.num_parts, [&](std::int64_t block) {
      multiply_rows(input(addresses, 0), input(addresses, 1), output(addresses, 0), blocks.begin(block),
                    blocks.end(block), pixels, channels);
    });
  });
}

std::unique_ptr<CpuKernel> make_multiply_backward_gate_kernel(const Op& op, CpuContext& context) {
  const Shape& x = op.inputs[0].shape;
  const std::int64_t images = x[0], pixels = x[1] * x[2], channels = x[3];
  return make_kernel(
      [images, pixels, channels, threads = images * pixels * channels <= serial_elements ? 1 : context.num_threads](
          const OperandAddresses& addresses, const StepScalars&) {
        const float *const dy = input(addresses, 0), *const values = input(addresses, 1);
        float* const sums = output(addresses, 0);
        const std::int64_t tiles = (channels + gate_channels - 1) / gate_channels;
        parallel_tasks(threads, images * tiles, [&](std::int64_t task) {
          const std::int64_t image = task / tiles, first = task % tiles * gate_channels;
          const std::int64_t at = image * pixels * channels + first;
          sum_products(dy + at, values + at, sums + image * channels + first, pixels, channels,
                       std::min(gate_channels, channels - first));
        });
      });
}

std::optional<Cut> cut_multiply(const Op& op) {
  if (!is_gate(op.inputs[0], op.inputs[1])) return std::nullopt;
  return cut_by_image(op);
}

}  // namespace

const CpuOp multiply_on_cpu = {make_multiply_kernel, cut_multiply};
const CpuOp multiply_backward_gate_on_cpu = {make_multiply_backward_gate_kernel, cut_by_image};

}  // namespace trainer
