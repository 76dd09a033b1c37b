#include "engine/cpu/channel_rows.h"

namespace trainer {

namespace {

/// Channels whose sums are held in registers while the rows stream by.
constexpr std::int64_t summed_channels = 64;

/// To a sum of all parts.
TRAINER_SIMD void add_part(double* sums, const double* part, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sums[i] += part[i];
}

TRAINER_SIMD void scale_rows_alone(const float* x, const float* scale, const float* offset, float* y, std::int64_t rows,
                                   std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = x + row * channels;
    float* const to = y + row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) to[c] = normalized(from[c], scale[c], offset[c]);
  }
}
TRAINER_SIMD void scale_rows_relu(const float* x, const float* scale, const float* offset, float ceiling, float* y,
                                  std::int64_t rows, std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = x + row * channels;
    float* const to = y + row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = normalized(from[c], scale[c], offset[c]);
      const float above = value < 0 ? 0 : value;
      to[c] = above > ceiling ? ceiling : above;
    }
  }
}

/// Whether what was `line` before ReLU passed it as it was.
TRAINER_SIMD_INLINE bool passed(float line, float ceiling) { return line > 0 && !(line >= ceiling); }

}  // namespace

TRAINER_SIMD void sum_moments(const float* x, const float* shift, std::int64_t rows, std::int64_t channels,
                              double* first, double* second) {
  for (std::int64_t row = 0; row < rows; row += rows_per_f32_sum) {
    const std::int64_t last = row + rows_per_f32_sum < rows ? row + rows_per_f32_sum : rows;
    std::int64_t c = 0;
    for (; c + summed_channels <= channels; c += summed_channels) {
      float sum[summed_channels] = {};
      float square[summed_channels] = {};
      for (std::int64_t r = row; r < last; ++r) {
        const float* const values = x + r * channels + c;
#pragma omp simd
        for (std::int64_t i = 0; i < summed_channels; ++i) {
          const float centred = values[i] - shift[c + i];
          sum[i] += centred;
          square[i] += centred * centred;
        }
      }
#pragma omp simd
      for (std::int64_t i = 0; i < summed_channels; ++i) {
        first[c + i] += static_cast<double>(sum[i]);
        second[c + i] += static_cast<double>(square[i]);
      }
    }
    if (c == channels) continue;
    float sum[summed_channels] = {};
    float square[summed_channels] = {};
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

void scale_rows(const float* x, const float* scale, const float* offset, bool relu, float* y, std::int64_t rows,
                std::int64_t channels, float ceiling) {
  if (relu)
    scale_rows_relu(x, scale, offset, ceiling, y, rows, channels);
  else
    scale_rows_alone(x, scale, offset, y, rows, channels);
}

TRAINER_SIMD void sum_gradients(const GradientRows& of, const float* mean, std::int64_t rows, double* first,
                                double* second) {
  const float *const dy = of.dy, *const x = of.x, *const scale = of.scale, *const offset = of.offset;
  const float ceiling = of.ceiling;
  const std::int64_t channels = of.channels;
  for (std::int64_t row = 0; row < rows; row += rows_per_f32_sum) {
    const std::int64_t last = row + rows_per_f32_sum < rows ? row + rows_per_f32_sum : rows;
    for (std::int64_t c = 0; c < channels; c += summed_channels) {
      float sum[summed_channels] = {};
      float product[summed_channels] = {};
      if (c + summed_channels <= channels && scale != nullptr) {
        for (std::int64_t r = row; r < last; ++r) {
          const std::int64_t at = r * channels + c;
#pragma omp simd
          for (std::int64_t i = 0; i < summed_channels; ++i) {
            const bool passes = passed(normalized(x[at + i], scale[c + i], offset[c + i]), ceiling);
            const float g = passes ? dy[at + i] : 0;
            sum[i] += g;
            product[i] += g * (x[at + i] - mean[c + i]);
          }
        }
      } else if (c + summed_channels <= channels) {
        for (std::int64_t r = row; r < last; ++r) {
          const std::int64_t at = r * channels + c;
#pragma omp simd
          for (std::int64_t i = 0; i < summed_channels; ++i) {
            sum[i] += dy[at + i];
            product[i] += dy[at + i] * (x[at + i] - mean[c + i]);
          }
        }
      } else {
        for (std::int64_t r = row; r < last; ++r) {
          const std::int64_t at = r * channels + c;
#pragma omp simd
          for (std::int64_t i = 0; i < channels - c; ++i) {
            const bool passes = scale == nullptr || passed(normalized(x[at + i], scale[c + i], offset[c + i]), ceiling);
            const float g = passes ? dy[at + i] : 0;
            sum[i] += g;
            product[i] += g * (x[at + i] - mean[c + i]);
          }
        }
      }
      const std::int64_t width = channels - c < summed_channels ? channels - c : summed_channels;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        first[c + i] += static_cast<double>(sum[i]);
        second[c + i] += static_cast<double>(product[i]);
      }
    }
  }
}

TRAINER_SIMD void combine_rows(const GradientRows& of, const float* a, const float* b, const float* d, float* dx,
                               std::int64_t rows) {
  const float *const dy = of.dy, *const x = of.x, *const scale = of.scale, *const offset = of.offset;
  const float ceiling = of.ceiling;
  const std::int64_t channels = of.channels;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * channels;
    if (scale != nullptr) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const float g = passed(normalized(x[at + c], scale[c], offset[c]), ceiling) ? dy[at + c] : 0;
        dx[at + c] = g * a[c] + (x[at + c] * b[c] + d[c]);
      }
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) dx[at + c] = dy[at + c] * a[c] + (x[at + c] * b[c] + d[c]);
    }
  }
}

void add_parts(double* sums, std::int64_t num_parts, std::int64_t count) {
  for (std::int64_t part = 1; part < num_parts; ++part) add_part(sums, sums + part * count, count);
}

void normalization_lines(const float* mean, const float* rstd, const float* weight, const float* bias,
                         std::int64_t channels, float* scale, float* offset) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto reciprocal = static_cast<double>(rstd[c]);
    const double slope = weight != nullptr ? static_cast<double>(weight[c]) * reciprocal : reciprocal;
    scale[c] = static_cast<float>(slope);
    offset[c] = static_cast<float>((bias != nullptr ? static_cast<double>(bias[c]) : 0.0) -
                                   static_cast<double>(mean[c]) * slope);
  }
}

}  // namespace trainer
