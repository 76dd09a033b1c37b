#include "engine/cpu/batchnorm2d.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/row_pieces.h"
#include "engine/half.h"

namespace trainer {

namespace {

/// Before the ReLU, if there is one, the addend.
TRAINER_SIMD void scale_rows_add(const float* x, const float* scale, const float* offset, const float* addend,
                                 bool relu, float* y, std::int64_t rows, std::int64_t channels) {
  const float least = relu ? 0 : -std::numeric_limits<float>::infinity();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = normalized(x[at + c], scale[c], offset[c]) + addend[at + c];
      y[at + c] = value < least ? least : value;
    }
  }
}
TRAINER_SIMD void add_addend(const float* addend, bool relu, float* y, std::int64_t count) {
  const float least = relu ? 0 : -std::numeric_limits<float>::infinity();
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = y[i] + addend[i];
    y[i] = value < least ? least : value;
  }
}

/// Adds elements [first, first + count) of an addend of f16 or bf16, which needs scratch on the stack alone.
void add_16_bit(DType type, const void* addend, std::int64_t first, bool relu, float* y, std::int64_t count) {
  float widened[stack_elements];
  for (std::int64_t done = 0; done < count; done += stack_elements) {
    const std::int64_t num_elements = std::min(stack_elements, count - done);
    widen(type, static_cast<const std::uint16_t*>(addend) + first + done, widened, num_elements);
    add_addend(widened, relu, y + done, num_elements);
  }
}

/// What every forward pass ends in.
struct LastPass {
  const void *x, *addend;  // null: no addend
  void* y;
  bool relu;
  float ceiling;  // with ReLU
  DType type;
  const float *scale, *offset;
  std::int64_t channels;

  /// y of `rows` rows as f32; those of x are `from`, and `row` is the first of them.
  void apply(const float* from, float* to, std::int64_t row, std::int64_t rows) const {
    const std::int64_t first = row * channels;
    if (addend == nullptr) {
      scale_rows(from, scale, offset, relu, to, rows, channels, ceiling);
    } else if (type == DType::f32) {
      scale_rows_add(from, scale, offset, static_cast<const float*>(addend) + first, relu, to, rows, channels);
    } else {
      scale_rows(from, scale, offset, false, to, rows, channels);
      add_16_bit(type, addend, first, relu, to, rows * channels);
    }
  }
};

/// Behind the lines in `lines`, the scale and the offset, is the scratch of the pieces.
void scale_all_rows(const CpuContext& context, const ImageRows& shape, const LastPass& of, const ChannelPlace& place,
                    float* lines) {
  const RowParts blocks = shape.blocks();
  const RowPieces pieces(of.type, of.channels, 1, lines + 2 * of.channels);
  const bool is_placed = place.row_channels != place.channels;
  parallel_tasks(shape.num_threads(context), blocks.num_parts, [&](std::int64_t i) {
    pieces.for_each(blocks.begin(i), blocks.end(i), [&](std::int64_t begin, std::int64_t end) {
      const float* const from = pieces.read(of.x, 0, begin, end);
      if (is_placed && of.type == DType::f32) {
        for (std::int64_t row = begin; row < end; ++row)
          of.apply(from + (row - begin) * of.channels, reinterpret_cast<float*>(place.row(of.y, row)), row, 1);
        return;
      }
      float* const to = pieces.write(of.y, 0, begin);
      of.apply(from, to, begin, end - begin);
      if (!is_placed) return pieces.written(of.y, 0, begin, end);
      for (std::int64_t row = begin; row < end; ++row)
        narrow(of.type, to + (row - begin) * of.channels, place.row(of.y, row), of.channels);
    });
  });
}

/// Of an op's operands; `lines` are the scale and the offset.
LastPass last_pass(const BatchNorm2dAttributes& attributes, const OperandAddresses& addresses, DType type,
                   std::int64_t channels, const float* lines) {
  const auto addend = static_cast<std::size_t>(addend_position(attributes));
  return {addresses.inputs[0],
          attributes.adds ? addresses.inputs[addend] : nullptr,
          addresses.outputs[0],
          attributes.relu,
          ceiling_of(attributes),
          type,
          lines,
          lines + channels,
          channels};
}

/// What is kept of one channel's mean and biased variance over `count` rows, and what its running statistics become.
void settle_channel(const BatchNorm2dAttributes& attributes, double count, double batch_mean, double variance,
                    float& mean, float& rstd, float& running_mean, float& running_var) {
  const double unbiased = count > 1 ? variance * (count / (count - 1)) : variance;
  const double reciprocal = 1 / std::sqrt(variance + attributes.eps);
  mean = static_cast<float>(batch_mean);
  rstd = static_cast<float>(reciprocal);
  const double m = attributes.momentum;
  if (m == 0) return;  // also of a batch that is not finite
  running_mean = static_cast<float>((1 - m) * static_cast<double>(running_mean) + m * batch_mean);
  running_var = static_cast<float>((1 - m) * static_cast<double>(running_var) + m * unbiased);
}

class BatchNorm2dKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const std::int64_t channels = shape_.channels;
    const void* const x = addresses.inputs[0];
    float* const running_mean = modified_input(addresses, 1);
    float* const running_var = modified_input(addresses, 2);
    const float* const weight = attributes_.affine ? input(addresses, 3) : nullptr;
    const float* const bias = attributes_.affine ? input(addresses, 4) : nullptr;
    float* const mean = output(addresses, 1);
    float* const rstd = output(addresses, 2);
    auto* const sums = static_cast<double*>(addresses.workspace);
    auto* const scale = reinterpret_cast<float*>(sums + shape_.num_sums());
    float* const offset = scale + channels;

    // y may be x, so the shift is kept apart.
    sum_all_moments(x, offset, sums, offset + channels);
    const auto count = static_cast<double>(shape_.rows);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double centred_mean = sums[c] / count;
      const double variance = std::max(sums[channels + c] / count - centred_mean * centred_mean, 0.0);
      settle_channel(attributes_, count, centred_mean + static_cast<double>(offset[c]), variance, mean[c], rstd[c],
                     running_mean[c], running_var[c]);
    }
    normalization_lines(mean, rstd, weight, bias, channels, scale, offset);
    place_.copy_others(addresses, context_.num_threads);
    scale_all_rows(context_, shape_, last_pass(attributes_, addresses, type_, shape_.channels, scale), place_, scale);
  }
};

class BatchNorm2dSumsKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const std::int64_t channels = shape_.channels;
    auto* const sums = static_cast<double*>(addresses.workspace);
    auto* const shift = reinterpret_cast<float*>(sums + shape_.num_sums());
    sum_all_moments(addresses.inputs[0], shift, sums, shift + channels);
    const auto count = static_cast<double>(shape_.rows);
    auto* const result = output<double>(addresses, 0);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double mean = static_cast<double>(shift[c]) + sums[c] / count;
      const double squared_deviations = std::max(sums[channels + c] - sums[c] * (sums[c] / count), 0.0);
      result[c] = count * mean;
      result[channels + c] = squared_deviations + count * mean * mean;
    }
    result[2 * channels] = count;
  }
};

void run_batchnorm2d_statistics(const BatchNorm2dAttributes& attributes, std::int64_t channels,
                                const OperandAddresses& addresses) {
  const auto* const sums = input<double>(addresses, 0);
  const double count = sums[2 * channels];
  for (std::int64_t c = 0; c < channels; ++c) {
    const double mean = sums[c] / count;
    const double variance = std::max(sums[channels + c] / count - mean * mean, 0.0);
    settle_channel(attributes, count, mean, variance, output(addresses, 0)[c], output(addresses, 1)[c],
                   modified_input(addresses, 1)[c], modified_input(addresses, 2)[c]);
  }
}

std::unique_ptr<CpuKernel> make_batchnorm2d_statistics(const Op& op, CpuContext&) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), channels = channels_of_sums(op.inputs[0])](
                         const OperandAddresses& addresses, const StepScalars&) {
    run_batchnorm2d_statistics(attributes, channels, addresses);
  });
}

class BatchNorm2dNormalizeKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    auto* const scale = static_cast<float*>(addresses.workspace);
    float* const offset = scale + shape_.channels;
    normalization_lines(input(addresses, 1), input(addresses, 2), attributes_.affine ? input(addresses, 3) : nullptr,
                        attributes_.affine ? input(addresses, 4) : nullptr, shape_.channels, scale, offset);
    place_.copy_others(addresses, context_.num_threads);
    scale_all_rows(context_, shape_, last_pass(attributes_, addresses, type_, shape_.channels, scale), place_, scale);
  }
};

class BatchNorm2dInferenceKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const float* const running_mean = input(addresses, 1);
    const float* const running_var = input(addresses, 2);
    auto* const scale = static_cast<float*>(addresses.workspace);
    float* const offset = scale + shape_.channels;
    for (std::int64_t c = 0; c < shape_.channels; ++c) {
      const double reciprocal = 1 / std::sqrt(static_cast<double>(running_var[c]) + attributes_.eps);
      const double slope = attributes_.affine ? static_cast<double>(input(addresses, 3)[c]) * reciprocal : reciprocal;
      const double bias = attributes_.affine ? static_cast<double>(input(addresses, 4)[c]) : 0.0;
      scale[c] = static_cast<float>(slope);
      offset[c] = static_cast<float>(bias - static_cast<double>(running_mean[c]) * slope);
    }
    place_.copy_others(addresses, context_.num_threads);
    scale_all_rows(context_, shape_, last_pass(attributes_, addresses, type_, shape_.channels, scale), place_, scale);
  }
};

class BatchNorm2dInferenceBackwardKernel final : public AnyBatchNorm2dKernel {
 public:
  using AnyBatchNorm2dKernel::AnyBatchNorm2dKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const float* const running_var = input(addresses, 1);
    auto* const scale = static_cast<float*>(addresses.workspace);
    float* const offset = scale + shape_.channels;
    std::fill_n(offset, shape_.channels, 0.0F);
    for (std::int64_t c = 0; c < shape_.channels; ++c) {
      const double reciprocal = 1 / std::sqrt(static_cast<double>(running_var[c]) + attributes_.eps);
      const double weight = attributes_.affine ? static_cast<double>(input(addresses, 2)[c]) : 1.0;
      scale[c] = static_cast<float>(weight * reciprocal);
    }
    const LastPass pass{.x = addresses.inputs[0],
                        .addend = nullptr,
                        .y = addresses.outputs[0],
                        .relu = false,
                        .ceiling = std::numeric_limits<float>::quiet_NaN(),
                        .type = type_,
                        .scale = scale,
                        .offset = offset,
                        .channels = shape_.channels};
    scale_all_rows(context_, shape_, pass, place_, scale);
  }
};

}  // namespace

void AnyBatchNorm2dKernel::sum_all_moments(const void* x, float* shift, double* sums, float* scratch) const {
  const std::int64_t channels = shape_.channels;
  const std::int64_t first_of_shift = shift_row(shape_.rows) * channels * static_cast<std::int64_t>(size_of(type_));
  widen(type_, static_cast<const std::byte*>(x) + first_of_shift, shift, channels);
  const RowParts parts = shape_.sum_parts();
  const RowPieces pieces(type_, channels, 1, scratch);
  parallel_tasks(shape_.num_threads(context_), parts.num_parts, [&](std::int64_t part) {
    double* const first = sums + part * 2 * channels;
    std::fill_n(first, 2 * channels, 0.0);
    pieces.for_each(parts.begin(part), parts.end(part), [&](std::int64_t begin, std::int64_t end) {
      sum_moments(pieces.read(x, 0, begin, end), shift, end - begin, channels, first, first + channels);
    });
  });
  add_parts(sums, parts.num_parts, 2 * channels);
}

// Sums, where there are any, then f32 vectors over the channels, two lines and backward three more, then pieces of
// 16-bit rows.
std::int64_t batchnorm2d_workspace_bytes(const Op& op, CpuContext& context) {
  const ImageRows shape(op.inputs[0]);
  const bool has_sums = op.kind == OpKind::batchnorm2d || op.kind == OpKind::batchnorm2d_backward ||
                        op.kind == OpKind::batchnorm2d_sums || op.kind == OpKind::batchnorm2d_gradient_sums;
  const bool combines = op.kind == OpKind::batchnorm2d_backward || op.kind == OpKind::batchnorm2d_normalize_backward;
  const bool reads_two = combines || op.kind == OpKind::batchnorm2d_gradient_sums;
  return (has_sums ? shape.num_sums() : 0) * static_cast<std::int64_t>(sizeof(double)) +
         (combines ? 5 : 2) * shape.channels * static_cast<std::int64_t>(sizeof(float)) +
         RowPieces::num_scratch_bytes(op.inputs[0].dtype, shape.channels, reads_two ? 2 : 1, context.num_threads);
}

const CpuOp batchnorm2d_on_cpu = {make_batchnorm2d<BatchNorm2dKernel>, takes_16_bit, batchnorm2d_workspace_bytes};
const CpuOp batchnorm2d_sums_on_cpu = {make_batchnorm2d<BatchNorm2dSumsKernel>, takes_16_bit,
                                       batchnorm2d_workspace_bytes};
const CpuOp batchnorm2d_statistics_on_cpu = {make_batchnorm2d_statistics, takes_16_bit};
const CpuOp batchnorm2d_normalize_on_cpu = {make_batchnorm2d<BatchNorm2dNormalizeKernel>, takes_16_bit,
                                            batchnorm2d_workspace_bytes};
const CpuOp batchnorm2d_inference_on_cpu = {make_batchnorm2d<BatchNorm2dInferenceKernel>, takes_16_bit,
                                            batchnorm2d_workspace_bytes};
const CpuOp batchnorm2d_inference_backward_on_cpu = {make_batchnorm2d<BatchNorm2dInferenceBackwardKernel>, takes_16_bit,
                                                     batchnorm2d_workspace_bytes};

}  // namespace trainer
