#include <algorithm>

#include "engine/cpu/batchnorm2d.h"
#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/row_pieces.h"

namespace trainer {

namespace {

/// g = dy where y is above 0, by the arithmetic of activation_backward; g may be dy.
TRAINER_SIMD void stop_loop(const float* dy, const float* y, float* g, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) g[i] = dy[i] * (y[i] > 0 ? 1.0F : 0.0F);
}

/// The same of elements [first, first + count) of tensors of `type`.
void stop_gradient(DType type, const void* dy, const void* y, void* g, std::int64_t first, std::int64_t count) {
  if (type == DType::f32) {
    stop_loop(static_cast<const float*>(dy) + first, static_cast<const float*>(y) + first,
              static_cast<float*>(g) + first, count);
    return;
  }
  float wide_dy[stack_elements];
  float wide_y[stack_elements];
  for (std::int64_t at = first; at < first + count; at += stack_elements) {
    const std::int64_t num_elements = std::min(stack_elements, first + count - at);
    widen(type, static_cast<const std::uint16_t*>(dy) + at, wide_dy, num_elements);
    widen(type, static_cast<const std::uint16_t*>(y) + at, wide_y, num_elements);
    stop_loop(wide_dy, wide_y, wide_dy, num_elements);
    narrow(type, wide_dy, static_cast<std::uint16_t*>(g) + at, num_elements);
  }
}

/// What the passes over the rows read: g is dy where it passes the lines of x, if there are any.
struct GradientPasses {
  const CpuContext& context;
  const ImageRows& shape;
  const void *dy, *x;
  const float *scale, *offset;  // null without ReLU
  float ceiling;
  RowPieces pieces;

  GradientRows read(std::int64_t begin, std::int64_t end) const {
    return {pieces.read(dy, 0, begin, end), pieces.read(x, 1, begin, end), scale, offset, shape.channels, ceiling};
  }

  /// Σg and Σ g·(x − mean) in `sums`, which holds ImageRows::num_sums; `before(begin, end)` is called for rows before
  /// they are read.
  template <typename Before>
  void sum(const float* mean, double* sums, Before before) const {
    const std::int64_t channels = shape.channels;
    const RowParts parts = shape.sum_parts();
    parallel_tasks(shape.num_threads(context), parts.num_parts, [&](std::int64_t part) {
      double* const first = sums + part * 2 * channels;
      std::fill_n(first, 2 * channels, 0.0);
      // As many rows at a time as are summed in f32: they are in the cache when they are summed.
      for (std::int64_t row = parts.begin(part); row < parts.end(part); row += rows_per_f32_sum) {
        const std::int64_t last = std::min(row + rows_per_f32_sum, parts.end(part));
        before(row, last);
        pieces.for_each(row, last, [&](std::int64_t begin, std::int64_t end) {
          sum_gradients(read(begin, end), mean, end - begin, first, first + channels);
        });
      }
    });
    add_parts(sums, parts.num_parts, 2 * channels);
  }

  /// dx of the sums over `count` rows. dx = w·rstd·(g − Σg/n − x̂·Σ(g·x̂)/n) with x̂ = (x − mean)·rstd, as one linear
  /// function of g and x; `a`, `b` and `d` hold its numbers of each channel.
  void combine(const float* mean, const float* rstd, const float* weight, const double* sums, double count, float* a,
               float* b, float* d, void* dx) const {
    const std::int64_t channels = shape.channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto reciprocal = static_cast<double>(rstd[c]);
      const double slope = weight != nullptr ? static_cast<double>(weight[c]) * reciprocal : reciprocal;
      const double of_x = -slope * reciprocal * reciprocal * sums[channels + c] / count;
      a[c] = static_cast<float>(slope);
      b[c] = static_cast<float>(of_x);
      d[c] = static_cast<float>(-slope * sums[c] / count - of_x * static_cast<double>(mean[c]));
    }
    const RowParts blocks = shape.blocks();
    parallel_tasks(shape.num_threads(context), blocks.num_parts, [&](std::int64_t i) {
      pieces.for_each(blocks.begin(i), blocks.end(i), [&](std::int64_t begin, std::int64_t end) {
        combine_rows(read(begin, end), a, b, d, pieces.write(dx, 0, begin), end - begin);
        pieces.written(dx, 0, begin, end);
      });
    });
  }
};

void write_parameter_gradients(const OperandAddresses& addresses, const float* rstd, const double* sums,
                               std::int64_t channels) {
  float* const dweight = output(addresses, 1);
  float* const dbias = output(addresses, 2);
  for (std::int64_t c = 0; c < channels; ++c) {
    dweight[c] = static_cast<float>(sums[channels + c] * static_cast<double>(rstd[c]));
    dbias[c] = static_cast<float>(sums[c]);
  }
}

class BatchNorm2dBackwardKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const std::int64_t channels = shape_.channels;
    const float* const mean = input(addresses, 2);
    const float* const rstd = input(addresses, 3);
    const float* const weight = attributes_.affine ? input(addresses, 4) : nullptr;
    const bool has_line = attributes_.relu && !attributes_.adds;
    const float* const bias = has_line && attributes_.affine ? input(addresses, 5) : nullptr;
    const void* const y = attributes_.adds ? addresses.inputs.back() : nullptr;
    void* const daddend = attributes_.adds ? addresses.outputs.back() : nullptr;
    auto* const sums = static_cast<double*>(addresses.workspace);
    auto* const a = reinterpret_cast<float*>(sums + shape_.num_sums());
    float* const b = a + channels;
    float* const d = b + channels;
    float* const scale = has_line ? d + channels : nullptr;
    float* const offset = has_line ? scale + channels : nullptr;
    if (has_line) normalization_lines(mean, rstd, weight, bias, channels, scale, offset);
    // Where there was an addend, dy is g already, which is the addend's gradient.
    const GradientPasses passes{.context = context_,
                                .shape = shape_,
                                .dy = attributes_.adds ? daddend : addresses.inputs[0],
                                .x = addresses.inputs[1],
                                .scale = scale,
                                .offset = offset,
                                .ceiling = ceiling_of(attributes_),
                                .pieces = RowPieces(type_, channels, 2, a + 5 * channels)};
    passes.sum(mean, sums, [&](std::int64_t row, std::int64_t last) {
      if (y != nullptr) stop_gradient(type_, addresses.inputs[0], y, daddend, row * channels, (last - row) * channels);
    });
    if (attributes_.affine) write_parameter_gradients(addresses, rstd, sums, channels);
    passes.combine(mean, rstd, weight, sums, static_cast<double>(shape_.rows), a, b, d, addresses.outputs[0]);
  }
};

/// Of a micro-batch of ranks: Note [Batch norm over ranks] in engine/ops/batchnorm2d_over_ranks.h.
class BatchNorm2dGradientSumsKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const std::int64_t channels = shape_.channels;
    const float* const mean = input(addresses, 2);
    const float* const rstd = input(addresses, 3);
    const bool reads_line = attributes_.affine && attributes_.relu;
    auto* const sums = static_cast<double*>(addresses.workspace);
    auto* const lines = reinterpret_cast<float*>(sums + shape_.num_sums());
    if (attributes_.relu)
      normalization_lines(mean, rstd, reads_line ? input(addresses, 4) : nullptr,
                          reads_line ? input(addresses, 5) : nullptr, channels, lines, lines + channels);
    const GradientPasses passes{.context = context_,
                                .shape = shape_,
                                .dy = addresses.inputs[0],
                                .x = addresses.inputs[1],
                                .scale = attributes_.relu ? lines : nullptr,
                                .offset = attributes_.relu ? lines + channels : nullptr,
                                .ceiling = ceiling_of(attributes_),
                                .pieces = RowPieces(type_, channels, 2, lines + 2 * channels)};
    passes.sum(mean, sums, [](std::int64_t, std::int64_t) {});
    auto* const result = output<double>(addresses, 0);
    std::copy_n(sums, 2 * channels, result);
    result[2 * channels] = static_cast<double>(shape_.rows);
    if (attributes_.affine) write_parameter_gradients(addresses, rstd, sums, channels);
  }
};

class BatchNorm2dNormalizeBackwardKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const std::int64_t channels = shape_.channels;
    const float* const mean = input(addresses, 2);
    const float* const rstd = input(addresses, 3);
    const auto* const sums = input<double>(addresses, 4);
    const float* const weight = attributes_.affine ? input(addresses, 5) : nullptr;
    const float* const bias = attributes_.affine && attributes_.relu ? input(addresses, 6) : nullptr;
    auto* const a = static_cast<float*>(addresses.workspace);
    float* const b = a + channels;
    float* const d = b + channels;
    float* const scale = attributes_.relu ? d + channels : nullptr;
    float* const offset = attributes_.relu ? scale + channels : nullptr;
    if (attributes_.relu) normalization_lines(mean, rstd, weight, bias, channels, scale, offset);
    const GradientPasses passes{.context = context_,
                                .shape = shape_,
                                .dy = addresses.inputs[0],
                                .x = addresses.inputs[1],
                                .scale = scale,
                                .offset = offset,
                                .ceiling = ceiling_of(attributes_),
                                .pieces = RowPieces(type_, channels, 2, a + 5 * channels)};
    passes.combine(mean, rstd, weight, sums, sums[2 * channels], a, b, d, addresses.outputs[0]);
  }
};

}  // namespace

const CpuOp batchnorm2d_backward_on_cpu = {make_batchnorm2d<BatchNorm2dBackwardKernel>, takes_16_bit,
                                           batchnorm2d_workspace_bytes};
const CpuOp batchnorm2d_gradient_sums_on_cpu = {make_batchnorm2d<BatchNorm2dGradientSumsKernel>, takes_16_bit,
                                                batchnorm2d_workspace_bytes};
const CpuOp batchnorm2d_normalize_backward_on_cpu = {make_batchnorm2d<BatchNorm2dNormalizeBackwardKernel>, takes_16_bit,
                                                     batchnorm2d_workspace_bytes};

}  // namespace trainer
