#include <cmath>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/simd.h"

namespace trainer {

namespace {

/// Channels whose sums are held in registers while the rows stream by.
constexpr std::int64_t tile_channels = 64;
/// Rows summed in f32 before they are added to an f64 sum: bounds the rounding error whatever the batch.
constexpr std::int64_t rows_per_f32_sum = 64;

struct Channels {
  std::int64_t rows = 0, channels = 0;  // N·H·W, C
};

Channels channels_of(const TensorType& x) { return {x.num_elements() / x.shape[-1], x.shape[-1]}; }
RowParts parts_of(const Channels& shape) { return row_parts(shape.rows, rows_per_f32_sum); }

/// Adds to first[c] the sum of x − shift, to second[c] that of its square, over some rows. Centring on a value of the
/// data keeps the difference of the two exact enough where the mean is large against the deviation.
TRAINER_SIMD void sum_moments(const float* x, const float* shift, std::int64_t begin, std::int64_t end,
                              std::int64_t channels, double* first, double* second) {
  for (std::int64_t c = 0; c < channels; ++c) first[c] = second[c] = 0;
  for (std::int64_t row = begin; row < end; row += rows_per_f32_sum) {
    const std::int64_t last = row + rows_per_f32_sum < end ? row + rows_per_f32_sum : end;
    std::int64_t c = 0;
    for (; c + tile_channels <= channels; c += tile_channels) {
      float sum[tile_channels] = {};
      float square[tile_channels] = {};
      for (std::int64_t r = row; r < last; ++r) {
        const float* const values = x + r * channels + c;
#pragma omp simd
        for (std::int64_t i = 0; i < tile_channels; ++i) {
          const float centred = values[i] - shift[c + i];
          sum[i] += centred;
          square[i] += centred * centred;
        }
      }
#pragma omp simd
      for (std::int64_t i = 0; i < tile_channels; ++i) {
        first[c + i] += static_cast<double>(sum[i]);
        second[c + i] += static_cast<double>(square[i]);
      }
    }
    if (c == channels) continue;
    float sum[tile_channels] = {};
    float square[tile_channels] = {};
    for (std::int64_t r = row; r < last; ++r) {
      const float* const values = x + r * channels + c;
#pragma omp simd
      for (std::int64_t i = 0; i < channels - c; ++i) {
        const float centred = values[i] - shift[c + i];
        sum[i] += centred;
        square[i] += centred * centred;
      }
    }
    for (std::int64_t i = 0; i < channels - c; ++i) {
      first[c + i] += static_cast<double>(sum[i]);
      second[c + i] += static_cast<double>(square[i]);
    }
  }
}

/// Adds up the sums of all parts into those of the first, in order.
TRAINER_SIMD void add_parts(double* sums, std::int64_t num_parts, std::int64_t count) {
  for (std::int64_t part = 1; part < num_parts; ++part) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sums[i] += sums[part * count + i];
  }
}

// y = x · scale[c] + offset[c]
TRAINER_SIMD void scale_rows(const float* x, const float* scale, const float* offset, float* y, std::int64_t begin,
                             std::int64_t end, std::int64_t channels) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const from = x + row * channels;
    float* const to = y + row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c] * scale[c] + offset[c];
  }
}
TRAINER_SIMD void scale_rows_relu(const float* x, const float* scale, const float* offset, float* y, std::int64_t begin,
                                  std::int64_t end, std::int64_t channels) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const from = x + row * channels;
    float* const to = y + row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = from[c] * scale[c] + offset[c];
      to[c] = value < 0 ? 0 : value;
    }
  }
}

void scale_all_rows(const CpuContext& context, const Channels& shape, bool relu, const float* x, const float* scale,
                    const float* offset, float* y) {
  const RowParts blocks = row_parts(shape.rows, std::max<std::int64_t>(1, 8192 / shape.channels), shape.rows);
  const int num_threads = shape.rows * shape.channels <= serial_elements ? 1 : context.num_threads;
  parallel_tasks(num_threads, blocks.num_parts, [&](std::int64_t i) {
    (relu ? scale_rows_relu : scale_rows)(x, scale, offset, y, blocks.begin(i), blocks.end(i), shape.channels);
  });
}

/// Parts of the sums, then two f32 vectors over the channels.
std::int64_t workspace_elements_f64(const Channels& shape) { return parts_of(shape).num_parts * 2 * shape.channels; }

class BatchNorm2dKernel final : public CpuKernel {
 public:
  BatchNorm2dKernel(const Op& op, const CpuContext& context)
      : context_(context), attributes_(attributes_of<BatchNorm2dAttributes>(op)), shape_(channels_of(op.inputs[0])) {}

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const std::int64_t channels = shape_.channels;
    const float* const x = input(addresses, 0);
    float* const running_mean = modified_input(addresses, 1);
    float* const running_var = modified_input(addresses, 2);
    const float* const weight = attributes_.affine ? input(addresses, 3) : nullptr;
    const float* const bias = attributes_.affine ? input(addresses, 4) : nullptr;
    float* const mean = output(addresses, 1);
    float* const rstd = output(addresses, 2);
    auto* const sums = static_cast<double*>(addresses.workspace);
    auto* const scale = reinterpret_cast<float*>(sums + workspace_elements_f64(shape_));
    float* const offset = scale + channels;

    // The first row serves as the shift; y may be x, so it is kept apart.
    for (std::int64_t c = 0; c < channels; ++c) offset[c] = x[c];
    const RowParts parts = parts_of(shape_);
    const int num_threads = shape_.rows * channels <= serial_elements ? 1 : context_.num_threads;
    parallel_tasks(num_threads, parts.num_parts, [&](std::int64_t part) {
      double* const first = sums + part * 2 * channels;
      sum_moments(x, offset, parts.begin(part), parts.end(part), channels, first, first + channels);
    });
    add_parts(sums, parts.num_parts, 2 * channels);

    const auto count = static_cast<double>(shape_.rows);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double centred_mean = sums[c] / count;
      const double batch_mean = centred_mean + static_cast<double>(offset[c]);
      const double variance = std::max(sums[channels + c] / count - centred_mean * centred_mean, 0.0);
      const double unbiased = count > 1 ? variance * (count / (count - 1)) : variance;
      const double reciprocal = 1 / std::sqrt(variance + attributes_.eps);
      mean[c] = static_cast<float>(batch_mean);
      rstd[c] = static_cast<float>(reciprocal);
      const double m = attributes_.momentum;
      running_mean[c] = static_cast<float>((1 - m) * static_cast<double>(running_mean[c]) + m * batch_mean);
      running_var[c] = static_cast<float>((1 - m) * static_cast<double>(running_var[c]) + m * unbiased);
      const double slope = weight != nullptr ? static_cast<double>(weight[c]) * reciprocal : reciprocal;
      scale[c] = static_cast<float>(slope);
      offset[c] = static_cast<float>((bias != nullptr ? static_cast<double>(bias[c]) : 0.0) - batch_mean * slope);
    }
    scale_all_rows(context_, shape_, attributes_.relu, x, scale, offset, output(addresses, 0));
  }

 private:
  const CpuContext& context_;
  BatchNorm2dAttributes attributes_;
  Channels shape_;
};

class BatchNorm2dInferenceKernel final : public CpuKernel {
 public:
  BatchNorm2dInferenceKernel(const Op& op, const CpuContext& context)
      : context_(context), attributes_(attributes_of<BatchNorm2dAttributes>(op)), shape_(channels_of(op.inputs[0])) {}

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
    scale_all_rows(context_, shape_, attributes_.relu, input(addresses, 0), scale, offset, output(addresses, 0));
  }

 private:
  const CpuContext& context_;
  BatchNorm2dAttributes attributes_;
  Channels shape_;
};

/// As sum_moments: of g, and of g · (x − mean), where g is dy, or dy where y > 0 if y is given.
TRAINER_SIMD void sum_gradients(const float* dy, const float* x, const float* y, const float* mean, std::int64_t begin,
                                std::int64_t end, std::int64_t channels, double* first, double* second) {
  for (std::int64_t c = 0; c < channels; ++c) first[c] = second[c] = 0;
  for (std::int64_t row = begin; row < end; row += rows_per_f32_sum) {
    const std::int64_t last = row + rows_per_f32_sum < end ? row + rows_per_f32_sum : end;
    for (std::int64_t c = 0; c < channels; c += tile_channels) {
      float sum[tile_channels] = {};
      float product[tile_channels] = {};
      if (c + tile_channels <= channels && y != nullptr) {
        for (std::int64_t r = row; r < last; ++r) {
          const std::int64_t at = r * channels + c;
#pragma omp simd
          for (std::int64_t i = 0; i < tile_channels; ++i) {
            const float g = y[at + i] > 0 ? dy[at + i] : 0;
            sum[i] += g;
            product[i] += g * (x[at + i] - mean[c + i]);
          }
        }
      } else if (c + tile_channels <= channels) {
        for (std::int64_t r = row; r < last; ++r) {
          const std::int64_t at = r * channels + c;
#pragma omp simd
          for (std::int64_t i = 0; i < tile_channels; ++i) {
            sum[i] += dy[at + i];
            product[i] += dy[at + i] * (x[at + i] - mean[c + i]);
          }
        }
      } else {
        for (std::int64_t r = row; r < last; ++r) {
          const std::int64_t at = r * channels + c;
#pragma omp simd
          for (std::int64_t i = 0; i < channels - c; ++i) {
            const float g = y == nullptr || y[at + i] > 0 ? dy[at + i] : 0;
            sum[i] += g;
            product[i] += g * (x[at + i] - mean[c + i]);
          }
        }
      }
      const std::int64_t width = channels - c < tile_channels ? channels - c : tile_channels;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        first[c + i] += static_cast<double>(sum[i]);
        second[c + i] += static_cast<double>(product[i]);
      }
    }
  }
}

// dx = g · a[c] + x · b[c] + d[c]
TRAINER_SIMD void combine_rows(const float* dy, const float* x, const float* y, const float* a, const float* b,
                               const float* d, float* dx, std::int64_t begin, std::int64_t end, std::int64_t channels) {
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * channels;
    if (y != nullptr) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const float g = y[at + c] > 0 ? dy[at + c] : 0;
        dx[at + c] = g * a[c] + (x[at + c] * b[c] + d[c]);
      }
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) dx[at + c] = dy[at + c] * a[c] + (x[at + c] * b[c] + d[c]);
    }
  }
}

class BatchNorm2dBackwardKernel final : public CpuKernel {
 public:
  BatchNorm2dBackwardKernel(const Op& op, const CpuContext& context)
      : context_(context), attributes_(attributes_of<BatchNorm2dAttributes>(op)), shape_(channels_of(op.inputs[0])) {}

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const std::int64_t channels = shape_.channels;
    const float* const dy = input(addresses, 0);
    const float* const x = input(addresses, 1);
    const float* const mean = input(addresses, 2);
    const float* const rstd = input(addresses, 3);
    const float* const weight = attributes_.affine ? input(addresses, 4) : nullptr;
    const float* const y = attributes_.relu ? input(addresses, attributes_.affine ? 5 : 4) : nullptr;
    auto* const sums = static_cast<double*>(addresses.workspace);
    auto* const a = reinterpret_cast<float*>(sums + workspace_elements_f64(shape_));
    float* const b = a + channels;
    float* const d = b + channels;

    const RowParts parts = parts_of(shape_);
    const int num_threads = shape_.rows * channels <= serial_elements ? 1 : context_.num_threads;
    parallel_tasks(num_threads, parts.num_parts, [&](std::int64_t part) {
      double* const first = sums + part * 2 * channels;
      sum_gradients(dy, x, y, mean, parts.begin(part), parts.end(part), channels, first, first + channels);
    });
    add_parts(sums, parts.num_parts, 2 * channels);

    // dx = w·rstd·(g − Σg/n − x̂·Σ(g·x̂)/n) with x̂ = (x − mean)·rstd, as one linear function of g and x.
    const auto count = static_cast<double>(shape_.rows);
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto reciprocal = static_cast<double>(rstd[c]);
      const double slope = weight != nullptr ? static_cast<double>(weight[c]) * reciprocal : reciprocal;
      const double of_x = -slope * reciprocal * reciprocal * sums[channels + c] / count;
      a[c] = static_cast<float>(slope);
      b[c] = static_cast<float>(of_x);
      d[c] = static_cast<float>(-slope * sums[c] / count - of_x * static_cast<double>(mean[c]));
    }
    if (attributes_.affine) {
      float* const dweight = output(addresses, 1);
      float* const dbias = output(addresses, 2);
      for (std::int64_t c = 0; c < channels; ++c) {
        dweight[c] = static_cast<float>(sums[channels + c] * static_cast<double>(rstd[c]));
        dbias[c] = static_cast<float>(sums[c]);
      }
    }
    float* const dx = output(addresses, 0);
    const RowParts blocks = row_parts(shape_.rows, std::max<std::int64_t>(1, 8192 / channels), shape_.rows);
    parallel_tasks(num_threads, blocks.num_parts, [&](std::int64_t i) {
      combine_rows(dy, x, y, a, b, d, dx, blocks.begin(i), blocks.end(i), channels);
    });
  }

 private:
  const CpuContext& context_;
  BatchNorm2dAttributes attributes_;
  Channels shape_;
};

}  // namespace

std::int64_t batchnorm2d_workspace_bytes(const Op& op) {
  const Channels shape = channels_of(op.inputs[0]);
  if (op.kind == OpKind::batchnorm2d_inference) return 2 * shape.channels * static_cast<std::int64_t>(sizeof(float));
  return workspace_elements_f64(shape) * static_cast<std::int64_t>(sizeof(double)) +
         3 * shape.channels * static_cast<std::int64_t>(sizeof(float));
}

std::unique_ptr<CpuKernel> make_batchnorm2d_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<BatchNorm2dKernel>(op, context);
}
std::unique_ptr<CpuKernel> make_batchnorm2d_inference_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<BatchNorm2dInferenceKernel>(op, context);
}
std::unique_ptr<CpuKernel> make_batchnorm2d_backward_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<BatchNorm2dBackwardKernel>(op, context);
}

}  // namespace trainer
