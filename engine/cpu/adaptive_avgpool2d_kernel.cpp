#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// Along one axis, the windows of `out` outputs over `in` inputs.
struct AdaptiveAxis {
  std::int64_t in, out;

  struct Range {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };
  Range window(std::int64_t output) const { return {output * in / out, ((output + 1) * in + out - 1) / out}; }
  /// Outputs whose windows have that input.
  Range windows_over(std::int64_t input) const { return {input * out / in, ((input + 1) * out + in - 1) / in}; }
};

struct AdaptiveImage {
  AdaptiveAxis rows, columns;
  std::int64_t images, channels;

  AdaptiveImage(const Shape& x, const Shape& y) : rows{x[1], y[1]}, columns{x[2], y[2]}, images(x[0]), channels(x[3]) {}
};

TRAINER_SIMD void adaptive_avgpool_row(const AdaptiveImage& s, const float* x, float* y, std::int64_t out_row) {
  const AdaptiveAxis::Range rows = s.rows.window(out_row);
  for (std::int64_t out_column = 0; out_column < s.columns.out; ++out_column) {
    const AdaptiveAxis::Range columns = s.columns.window(out_column);
    float* const to = y + out_column * s.channels;
#pragma omp simd
    for (std::int64_t c = 0; c < s.channels; ++c) to[c] = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float* const values = x + (row * s.columns.in + column) * s.channels;
#pragma omp simd
        for (std::int64_t c = 0; c < s.channels; ++c) to[c] += values[c];
      }
    }
    const float factor = 1.0F / static_cast<float>(rows.size() * columns.size());
#pragma omp simd
    for (std::int64_t c = 0; c < s.channels; ++c) to[c] *= factor;
  }
}

TRAINER_SIMD void adaptive_avgpool_backward_row(const AdaptiveImage& s, const float* dy, float* dx,
                                                std::int64_t in_row) {
  const AdaptiveAxis::Range rows = s.rows.windows_over(in_row);
  for (std::int64_t in_column = 0; in_column < s.columns.in; ++in_column) {
    const AdaptiveAxis::Range columns = s.columns.windows_over(in_column);
    float* const to = dx + in_column * s.channels;
#pragma omp simd
    for (std::int64_t c = 0; c < s.channels; ++c) to[c] = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float factor = 1.0F / static_cast<float>(s.rows.window(row).size() * s.columns.window(column).size());
        const float* const gradients = dy + (row * s.columns.out + column) * s.channels;
#pragma omp simd
        for (std::int64_t c = 0; c < s.channels; ++c) to[c] += gradients[c] * factor;
      }
    }
  }
}

int adaptive_threads(const AdaptiveImage& s, int threads) {
  const std::int64_t count = s.images * (s.rows.in * s.columns.in + s.rows.out * s.columns.out) * s.channels;
  return count <= serial_elements ? 1 : threads;
}

std::unique_ptr<CpuKernel> make_adaptive_avgpool2d_kernel(const Op& op, CpuContext& context) {
  const AdaptiveImage shape(op.inputs[0].shape, op.outputs[0].shape);
  return make_kernel([s = shape, threads = adaptive_threads(shape, context.num_threads)](
                         const OperandAddresses& addresses, const StepScalars&) {
    const float* const x = input(addresses, 0);
    float* const y = output(addresses, 0);
    parallel_tasks(threads, s.images * s.rows.out, [&](std::int64_t i) {
      adaptive_avgpool_row(s, x + i / s.rows.out * s.rows.in * s.columns.in * s.channels,
                           y + i * s.columns.out * s.channels, i % s.rows.out);
    });
  });
}

std::unique_ptr<CpuKernel> make_adaptive_avgpool2d_backward_kernel(const Op& op, CpuContext& context) {
  const AdaptiveImage shape(op.outputs[0].shape, op.inputs[0].shape);
  return make_kernel([s = shape, threads = adaptive_threads(shape, context.num_threads)](
                         const OperandAddresses& addresses, const StepScalars&) {
    const float* const dy = input(addresses, 0);
    float* const dx = output(addresses, 0);
    parallel_tasks(threads, s.images * s.rows.in, [&](std::int64_t i) {
      adaptive_avgpool_backward_row(s, dy + i / s.rows.in * s.rows.out * s.columns.out * s.channels,
                                    dx + i * s.columns.in * s.channels, i % s.rows.in);
    });
  });
}

}  // namespace

const CpuOp adaptive_avgpool2d_on_cpu = {make_adaptive_avgpool2d_kernel, cut_by_image};
const CpuOp adaptive_avgpool2d_backward_on_cpu = {make_adaptive_avgpool2d_backward_kernel, cut_by_image};

}  // namespace trainer
