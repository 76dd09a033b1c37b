#include <algorithm>
#include <array>
#include <memory>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

// Note [Transposed convolutions] in engine/ops/conv_transpose2d.h: the convolutions are conv2d's.

namespace trainer {

namespace {

TRAINER_SIMD void add_bias_to_rows(const float* bias, float* y, std::int64_t rows, std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const to = y + row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) to[c] += bias[c];
  }
}

constexpr std::int64_t bias_channels = 16, bias_rows = 512;

/// The sums over the rows of up to 16 channels of dy: of f32 over 512 rows at a time, those in f64.
TRAINER_SIMD void sum_channels(const float* dy, float* sums, std::int64_t rows, std::int64_t channels,
                               std::int64_t count) {
  std::array<double, bias_channels> totals{};
  for (std::int64_t begin = 0; begin < rows; begin += bias_rows) {
    std::array<float, bias_channels> part{};
    for (std::int64_t row = begin; row < std::min(rows, begin + bias_rows); ++row) {
      const float* const from = dy + row * channels;
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) part[static_cast<std::size_t>(c)] += from[c];
    }
    for (std::size_t c = 0; c < part.size(); ++c) totals[c] += static_cast<double>(part[c]);
  }
  for (std::int64_t c = 0; c < count; ++c) sums[c] = static_cast<float>(totals[static_cast<std::size_t>(c)]);
}

/// The same convolution's kernel, and then the bias.
class TransposedKernel final : public CpuKernel {
 public:
  TransposedKernel(const Op& op, CpuContext& context)
      : convolution_(make_kernel_of(convolution_of_transposed(op), context)),
        has_bias_(op.inputs.size() > 2),
        channels_(op.outputs[0].shape[3]),
        pixels_(op.outputs[0].num_elements() / channels_),
        num_threads_(context.num_threads) {}

  void run(const OperandAddresses& addresses, const StepScalars& scalars) override {
    convolution_->run({addresses.inputs.first(2), addresses.outputs, addresses.workspace}, scalars);
    if (!has_bias_) return;
    const float* const bias = input(addresses, 2);
    float* const y = output(addresses, 0);
    const std::int64_t rows_at_once = std::max<std::int64_t>(1, serial_elements / channels_);
    parallel_tasks(num_threads_, (pixels_ + rows_at_once - 1) / rows_at_once, [&](std::int64_t i) {
      const std::int64_t begin = i * rows_at_once;
      add_bias_to_rows(bias, y + begin * channels_, std::min(rows_at_once, pixels_ - begin), channels_);
    });
  }

 private:
  std::unique_ptr<CpuKernel> convolution_;
  bool has_bias_;
  std::int64_t channels_, pixels_;
  int num_threads_;
};

class TransposedWeightKernel final : public CpuKernel {
 public:
  TransposedWeightKernel(const Op& op, CpuContext& context)
      : convolution_(make_kernel_of(convolution_of_transposed(op), context)),
        has_bias_(op.outputs.size() > 1),
        channels_(op.inputs[0].shape[3]),
        pixels_(op.inputs[0].num_elements() / channels_),
        num_threads_(context.num_threads) {}

  void run(const OperandAddresses& addresses, const StepScalars& scalars) override {
    const std::array<void*, 2> inputs = {addresses.inputs[1], addresses.inputs[0]};
    convolution_->run({inputs, addresses.outputs.first(1), addresses.workspace}, scalars);
    if (!has_bias_) return;
    const float* const dy = input(addresses, 0);
    float* const db = output(addresses, 1);
    parallel_tasks(pixels_ * channels_ <= serial_elements ? 1 : num_threads_,
                   (channels_ + bias_channels - 1) / bias_channels, [&](std::int64_t i) {
                     const std::int64_t first = i * bias_channels;
                     sum_channels(dy + first, db + first, pixels_, channels_,
                                  std::min(bias_channels, channels_ - first));
                   });
  }

 private:
  std::unique_ptr<CpuKernel> convolution_;
  bool has_bias_;
  std::int64_t channels_, pixels_;
  int num_threads_;
};

std::unique_ptr<CpuKernel> make_conv_transpose2d_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<TransposedKernel>(op, context);
}
std::unique_ptr<CpuKernel> make_conv_transpose2d_backward_weight_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<TransposedWeightKernel>(op, context);
}

std::optional<Cut> cut_conv_transpose2d(const Op& op) { return cut_forward(op, op.inputs[0].shape[0], Part::whole); }
std::optional<Cut> cut_conv_transpose2d_backward_weight(const Op& op) {
  return cut_weight_gradient(op, op.inputs[0].shape[0]);
}

std::int64_t transposed_workspace_bytes(const Op& op, CpuContext& context) {
  return compute_workspace_bytes(convolution_of_transposed(op), context);
}

}  // namespace

const CpuOp conv_transpose2d_on_cpu = {make_conv_transpose2d_kernel, cut_conv_transpose2d, transposed_workspace_bytes};
const CpuOp conv_transpose2d_backward_weight_on_cpu = {
    make_conv_transpose2d_backward_weight_kernel, cut_conv_transpose2d_backward_weight, transposed_workspace_bytes};

}  // namespace trainer
