#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// Where the outputs of one axis come from.
struct UpsampleAxis {
  std::int64_t in = 0, out = 0;
  // Of each output: the input before it, the one behind it (or the same), and its share.
  std::vector<std::int64_t> lower, upper;
  std::vector<float> upper_share;
  /// Of each input and one more: the first output that lies at it or behind it.
  std::vector<std::int64_t> first;
  bool is_bilinear = false;

  UpsampleAxis(const UpsampleAttributes& attributes, int axis, const Shape& x, const Shape& y)
      : in(x[1 + axis]), out(y[1 + axis]), is_bilinear(attributes.mode == Interpolation::bilinear) {
    const std::int64_t scale = attributes.scale[static_cast<std::size_t>(axis)];
    const float ratio = scale > 0 ? static_cast<float>(1.0 / static_cast<double>(scale))
                                  : static_cast<float>(in) / static_cast<float>(out);
    const float corner_ratio = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0F;
    for (std::int64_t i = 0; i < out; ++i) {
      const auto at = static_cast<float>(i);
      float position = at * ratio;
      if (is_bilinear)
        position = attributes.align_corners ? at * corner_ratio : std::max(ratio * (at + 0.5F) - 0.5F, 0.0F);
      lower.push_back(std::min(static_cast<std::int64_t>(std::floor(position)), in - 1));
      upper.push_back(std::min(lower.back() + 1, in - 1));
      const float share = std::clamp(position - static_cast<float>(lower.back()), 0.0F, 1.0F);
      upper_share.push_back(is_bilinear ? share : 0.0F);
      while (static_cast<std::int64_t>(first.size()) <= lower.back()) first.push_back(i);
    }
    first.resize(static_cast<std::size_t>(in + 1), out);
  }

  /// Outputs from `begin`, below `end`.
  struct Range {
    std::int64_t begin, end;
  };
  Range outputs_of(std::int64_t input) const {
    const std::int64_t from = is_bilinear ? std::max<std::int64_t>(input - 1, 0) : input;
    return {first[static_cast<std::size_t>(from)], first[static_cast<std::size_t>(input + 1)]};
  }
  float share(std::int64_t output, std::int64_t input) const {
    const auto o = static_cast<std::size_t>(output);
    return (lower[o] == input ? 1.0F - upper_share[o] : 0.0F) + (upper[o] == input ? upper_share[o] : 0.0F);
  }
};

struct UpsampleImage {
  std::int64_t images, channels;
  UpsampleAxis rows, columns;

  UpsampleImage(const UpsampleAttributes& attributes, const Shape& x, const Shape& y)
      : images(x[0]), channels(x[3]), rows(attributes, 0, x, y), columns(attributes, 1, x, y) {}
};

void nearest_row(const UpsampleImage& s, const float* x, float* y, std::int64_t out_row) {
  const float* const line = x + s.rows.lower[static_cast<std::size_t>(out_row)] * s.columns.in * s.channels;
  for (std::int64_t column = 0; column < s.columns.out; ++column)
    std::copy_n(line + s.columns.lower[static_cast<std::size_t>(column)] * s.channels, s.channels,
                y + column * s.channels);
}

TRAINER_SIMD void bilinear_row(const UpsampleImage& s, const float* x, float* y, std::int64_t out_row) {
  const auto r = static_cast<std::size_t>(out_row);
  const std::int64_t line_elements = s.columns.in * s.channels;
  const float* const upper_line = x + s.rows.lower[r] * line_elements;
  const float* const lower_line = x + s.rows.upper[r] * line_elements;
  const float below = s.rows.upper_share[r], above = 1.0F - below;
  for (std::int64_t column = 0; column < s.columns.out; ++column) {
    const auto c = static_cast<std::size_t>(column);
    const std::int64_t left = s.columns.lower[c] * s.channels, right = s.columns.upper[c] * s.channels;
    const float to_right = s.columns.upper_share[c], to_left = 1.0F - to_right;
    float* const to = y + column * s.channels;
#pragma omp simd
    for (std::int64_t i = 0; i < s.channels; ++i)
      to[i] = above * (to_left * upper_line[left + i] + to_right * upper_line[right + i]) +
              below * (to_left * lower_line[left + i] + to_right * lower_line[right + i]);
  }
}

// What each element of x gathers, in the order of y: no two threads add to one.
TRAINER_SIMD void upsample_backward_row(const UpsampleImage& s, const float* dy, float* dx, std::int64_t in_row) {
  const UpsampleAxis::Range rows = s.rows.outputs_of(in_row);
  for (std::int64_t in_column = 0; in_column < s.columns.in; ++in_column) {
    const UpsampleAxis::Range columns = s.columns.outputs_of(in_column);
    float* const to = dx + in_column * s.channels;
#pragma omp simd
    for (std::int64_t i = 0; i < s.channels; ++i) to[i] = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float row_share = s.rows.share(row, in_row);
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float share = row_share * s.columns.share(column, in_column);
        const float* const gradients = dy + (row * s.columns.out + column) * s.channels;
#pragma omp simd
        for (std::int64_t i = 0; i < s.channels; ++i) to[i] += gradients[i] * share;
      }
    }
  }
}

std::unique_ptr<CpuKernel> make_upsample_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<UpsampleAttributes>(op);
  const int threads = op.outputs[0].num_elements() <= serial_elements ? 1 : context.num_threads;
  return make_kernel([s = UpsampleImage(attributes, op.inputs[0].shape, op.outputs[0].shape), threads,
                      is_bilinear = attributes.mode == Interpolation::bilinear](const OperandAddresses& addresses,
                                                                                const StepScalars&) {
    const float* const x = input(addresses, 0);
    float* const y = output(addresses, 0);
    parallel_tasks(threads, s.images * s.rows.out, [&](std::int64_t i) {
      const float* const image = x + i / s.rows.out * s.rows.in * s.columns.in * s.channels;
      float* const row = y + i * s.columns.out * s.channels;
      if (is_bilinear)
        bilinear_row(s, image, row, i % s.rows.out);
      else
        nearest_row(s, image, row, i % s.rows.out);
    });
  });
}

std::unique_ptr<CpuKernel> make_upsample_backward_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<UpsampleAttributes>(op);
  const int threads = op.inputs[0].num_elements() <= serial_elements ? 1 : context.num_threads;
  return make_kernel([s = UpsampleImage(attributes, op.outputs[0].shape, op.inputs[0].shape), threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    const float* const dy = input(addresses, 0);
    float* const dx = output(addresses, 0);
    parallel_tasks(threads, s.images * s.rows.in, [&](std::int64_t i) {
      upsample_backward_row(s, dy + i / s.rows.in * s.rows.out * s.columns.out * s.channels,
                            dx + i * s.columns.in * s.channels, i % s.rows.in);
    });
  });
}

}  // namespace

const CpuOp upsample_on_cpu = {make_upsample_kernel, cut_by_image};
const CpuOp upsample_backward_on_cpu = {make_upsample_backward_kernel, cut_by_image};

}  // namespace trainer
