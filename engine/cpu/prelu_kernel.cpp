#include <algorithm>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// What prelu is applied to: rows of channels, and a slope for each channel or one for all.
struct PreluShape {
  std::int64_t rows, channels;
  bool has_one_slope;
  int num_threads;

  PreluShape(const TensorType& x, const TensorType& weight, const CpuContext& context)
      : rows(x.num_elements() / x.shape[-1]),
        channels(x.shape[-1]),
        has_one_slope(weight.num_elements() == 1),
        num_threads(x.num_elements() <= serial_elements ? 1 : context.num_threads) {}

  /// Over which slopes' gradients are summed, one after the other in f64.
  RowParts parts() const { return row_parts(rows, std::max<std::int64_t>(1, 8192 / channels)); }
};

TRAINER_SIMD void prelu_rows(const float* x, const float* weight, bool has_one_slope, float* y, std::int64_t rows,
                             std::int64_t channels) {
  if (has_one_slope) {
    const float slope = *weight;
#pragma omp simd
    for (std::int64_t i = 0; i < rows * channels; ++i) y[i] = x[i] > 0 ? x[i] : slope * x[i];
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) y[at + c] = x[at + c] > 0 ? x[at + c] : weight[c] * x[at + c];
  }
}

constexpr std::int64_t slope_channels = 64;  // whose sums are held in registers
constexpr std::int64_t rows_per_sum = 128;   // of f32: bounds the rounding error whatever the batch

/// dx of `count` channels that lie `channels` apart from row to row; sums[c] = their slopes' gradients over the rows.
/// `slopes_apart` is 0 for one slope and else 1.
TRAINER_SIMD void backward_channels(const float* dy, const float* x, const float* weight, std::int64_t slopes_apart,
                                    float* dx, double* sums, std::int64_t rows, std::int64_t channels,
                                    std::int64_t count) {
  float slopes[slope_channels] = {};
  for (std::int64_t c = 0; c < count; ++c) slopes[c] = weight[c * slopes_apart];
  double total[slope_channels] = {};
  for (std::int64_t first = 0; first < rows; first += rows_per_sum) {
    const std::int64_t last = first + rows_per_sum < rows ? first + rows_per_sum : rows;
    float sum[slope_channels] = {};
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t at = row * channels;
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) {
        const float gradient = dy[at + c];  // dx may be dy
        const bool passes = x[at + c] > 0;
        sum[c] += passes ? 0 : gradient * x[at + c];
        dx[at + c] = passes ? gradient : slopes[c] * gradient;
      }
    }
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) total[c] += static_cast<double>(sum[c]);
  }
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) sums[c] = total[c];
}

std::unique_ptr<CpuKernel> make_prelu_kernel(const Op& op, CpuContext& context) {
  return make_kernel(
      [shape = PreluShape(op.inputs[0], op.inputs[1], context)](const OperandAddresses& addresses, const StepScalars&) {
        const RowParts parts = shape.parts();
        parallel_tasks(shape.num_threads, parts.num_parts, [&](std::int64_t part) {
          const std::int64_t at = parts.begin(part) * shape.channels;
          prelu_rows(input(addresses, 0) + at, input(addresses, 1), shape.has_one_slope, output(addresses, 0) + at,
                     parts.end(part) - parts.begin(part), shape.channels);
        });
      });
}

std::unique_ptr<CpuKernel> make_prelu_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel([shape = PreluShape(op.inputs[0], op.inputs[2], context)](const OperandAddresses& addresses,
                                                                               const StepScalars&) {
    const float *const dy = input(addresses, 0), *const x = input(addresses, 1), *const weight = input(addresses, 2);
    float* const dx = output(addresses, 0);
    auto* const sums = static_cast<double*>(addresses.workspace);  // (parts, channels)
    const RowParts parts = shape.parts();
    const std::int64_t channels = shape.channels;
    parallel_tasks(shape.num_threads, parts.num_parts, [&](std::int64_t part) {
      for (std::int64_t c = 0; c < channels; c += slope_channels) {
        const std::int64_t at = parts.begin(part) * channels + c;
        backward_channels(dy + at, x + at, shape.has_one_slope ? weight : weight + c, shape.has_one_slope ? 0 : 1,
                          dx + at, sums + part * channels + c, parts.end(part) - parts.begin(part), channels,
                          std::min(slope_channels, channels - c));
      }
    });
    float* const dweight = output(addresses, 1);
    double total = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::int64_t part = 0; part < parts.num_parts; ++part) sum += sums[part * channels + c];
      if (!shape.has_one_slope) dweight[c] = static_cast<float>(sum);
      total += sum;
    }
    if (shape.has_one_slope) dweight[0] = static_cast<float>(total);
  });
}

std::int64_t prelu_workspace_bytes(const Op& op, CpuContext& context) {
  const PreluShape shape(op.inputs[0], op.inputs[2], context);
  return shape.parts().num_parts * shape.channels * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t rows_of_prelu(const Op& op) { return op.inputs[0].num_elements() / op.inputs[0].shape[-1]; }

std::optional<Cut> cut_prelu(const Op& op) { return cut_forward(op, rows_of_prelu(op), Part::rows); }

std::optional<Cut> cut_prelu_backward(const Op& op) {
  return Cut{.num_rows = rows_of_prelu(op),
             .inputs = parts(op.inputs.size(), 2, Part::rows, Part::whole),
             .outputs = parts(op.outputs.size(), 1, Part::rows, Part::sum)};
}

}  // namespace

const CpuOp prelu_on_cpu = {make_prelu_kernel, cut_prelu};
const CpuOp prelu_backward_on_cpu = {make_prelu_backward_kernel, cut_prelu_backward, prelu_workspace_bytes};

}  // namespace trainer
