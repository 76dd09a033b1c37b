#include <algorithm>
#include <memory>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// One axis of a padded image.
struct PadAxis {
  std::int64_t in, out, before;
  PadMode mode;

  /// The input that an output takes; −1: none.
  std::int64_t source(std::int64_t output) const {
    const std::int64_t at = output - before;
    if (at >= 0 && at < in) return at;
    if (mode == PadMode::zeros) return -1;
    if (mode == PadMode::replicate) return at < 0 ? 0 : in - 1;
    return at < 0 ? -at : 2 * (in - 1) - at;
  }

  /// The outputs that take one input: those of a range, then up to two mirrored ones.
  struct Takers {
    std::int64_t begin, end;
    std::int64_t mirrored[2];
    std::int64_t num_mirrored;

    std::int64_t count() const { return end - begin + num_mirrored; }
    std::int64_t at(std::int64_t i) const { return i < end - begin ? begin + i : mirrored[i - (end - begin)]; }
  };
  Takers takers(std::int64_t input) const {
    Takers result{input + before, input + before + 1, {0, 0}, 0};
    if (mode == PadMode::replicate) {
      if (input == 0) result.begin = 0;
      if (input == in - 1) result.end = out;
    } else if (mode == PadMode::reflect) {
      if (input >= 1 && input <= before) result.mirrored[result.num_mirrored++] = before - input;
      const std::int64_t behind = before + 2 * (in - 1) - input;
      if (input <= in - 2 && behind < out) result.mirrored[result.num_mirrored++] = behind;
    }
    return result;
  }
};

struct PadImage {
  std::int64_t images, channels;
  PadAxis rows, columns;
  float value;

  PadImage(const PadAttributes& a, const Shape& x, const Shape& y)
      : images(x[0]),
        channels(x[3]),
        rows{x[1], y[1], a.size[0], a.mode},
        columns{x[2], y[2], a.size[2], a.mode},
        value(static_cast<float>(a.value)) {}
};

void pad_row(const PadImage& s, const float* x, float* y, std::int64_t out_row) {
  const std::int64_t row = s.rows.source(out_row);
  if (row < 0) {
    std::fill_n(y, s.columns.out * s.channels, s.value);
    return;
  }
  const float* const line = x + row * s.columns.in * s.channels;
  const auto fill = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; ++column) {
      const std::int64_t from = s.columns.source(column);
      if (from < 0)
        std::fill_n(y + column * s.channels, s.channels, s.value);
      else
        std::copy_n(line + from * s.channels, s.channels, y + column * s.channels);
    }
  };
  fill(0, s.columns.before);
  std::copy_n(line, s.columns.in * s.channels, y + s.columns.before * s.channels);
  fill(s.columns.before + s.columns.in, s.columns.out);
}

// What each element of x gathers, in one order.
TRAINER_SIMD void pad_backward_row(const PadImage& s, const float* dy, float* dx, std::int64_t in_row) {
  const PadAxis::Takers rows = s.rows.takers(in_row);
  for (std::int64_t in_column = 0; in_column < s.columns.in; ++in_column) {
    const PadAxis::Takers columns = s.columns.takers(in_column);
    float* const to = dx + in_column * s.channels;
#pragma omp simd
    for (std::int64_t c = 0; c < s.channels; ++c) to[c] = 0;
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      for (std::int64_t j = 0; j < columns.count(); ++j) {
        const float* const gradients = dy + (rows.at(i) * s.columns.out + columns.at(j)) * s.channels;
#pragma omp simd
        for (std::int64_t c = 0; c < s.channels; ++c) to[c] += gradients[c];
      }
    }
  }
}

std::unique_ptr<CpuKernel> make_pad_kernel(const Op& op, CpuContext& context) {
  const PadImage shape(attributes_of<PadAttributes>(op), op.inputs[0].shape, op.outputs[0].shape);
  const int threads = op.outputs[0].num_elements() <= serial_elements ? 1 : context.num_threads;
  return make_kernel([s = shape, threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const x = input(addresses, 0);
    float* const y = output(addresses, 0);
    parallel_tasks(threads, s.images * s.rows.out, [&](std::int64_t i) {
      pad_row(s, x + i / s.rows.out * s.rows.in * s.columns.in * s.channels, y + i * s.columns.out * s.channels,
              i % s.rows.out);
    });
  });
}

std::unique_ptr<CpuKernel> make_pad_backward_kernel(const Op& op, CpuContext& context) {
  const PadImage shape(attributes_of<PadAttributes>(op), op.outputs[0].shape, op.inputs[0].shape);
  const int threads = op.inputs[0].num_elements() <= serial_elements ? 1 : context.num_threads;
  return make_kernel([s = shape, threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const dy = input(addresses, 0);
    float* const dx = output(addresses, 0);
    parallel_tasks(threads, s.images * s.rows.in, [&](std::int64_t i) {
      pad_backward_row(s, dy + i / s.rows.in * s.rows.out * s.columns.out * s.channels,
                       dx + i * s.columns.in * s.channels, i % s.rows.in);
    });
  });
}

}  // namespace

const CpuOp pad_on_cpu = {make_pad_kernel, cut_by_image};
const CpuOp pad_backward_on_cpu = {make_pad_backward_kernel, cut_by_image};

}  // namespace trainer
