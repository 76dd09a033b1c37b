#include <algorithm>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/pool2d_window.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// What a window's sum is divided by, as PyTorch: the window clipped to the padded image, or to the image.
TRAINER_SIMD_INLINE float reciprocal_count(const Pool2dWindow& w, const Pool2dWindow::Range& rows,
                                           const Pool2dWindow::Range& columns, bool count_include_pad) {
  if (!count_include_pad) return 1.0F / static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
  const std::int64_t bottom = std::min(rows.start + w.kernel_height, w.in_height + w.padding_height);
  const std::int64_t right = std::min(columns.start + w.kernel_width, w.in_width + w.padding_width);
  return 1.0F / static_cast<float>((bottom - rows.start) * (right - columns.start));
}

TRAINER_SIMD void avgpool_row(const Pool2dWindow& w, bool count_include_pad, const float* x, float* y,
                              std::int64_t out_row) {
  const Pool2dWindow::Range rows = w.rows(out_row);
  for (std::int64_t out_column = 0; out_column < w.out_width; ++out_column) {
    const Pool2dWindow::Range columns = w.columns(out_column);
    const float factor = reciprocal_count(w, rows, columns, count_include_pad);
    float* const to = y + out_column * w.channels;
#pragma omp simd
    for (std::int64_t c = 0; c < w.channels; ++c) to[c] = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float* const values = x + (row * w.in_width + column) * w.channels;
#pragma omp simd
        for (std::int64_t c = 0; c < w.channels; ++c) to[c] += values[c];
      }
    }
#pragma omp simd
    for (std::int64_t c = 0; c < w.channels; ++c) to[c] *= factor;
  }
}

TRAINER_SIMD void avgpool_backward_row(const Pool2dWindow& w, bool count_include_pad, const float* dy, float* dx,
                                       std::int64_t out_row) {
  const Pool2dWindow::Range rows = w.rows(out_row);
  for (std::int64_t out_column = 0; out_column < w.out_width; ++out_column) {
    const Pool2dWindow::Range columns = w.columns(out_column);
    const float factor = reciprocal_count(w, rows, columns, count_include_pad);
    const float* const gradients = dy + out_column * w.channels;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        float* const to = dx + (row * w.in_width + column) * w.channels;
#pragma omp simd
        for (std::int64_t c = 0; c < w.channels; ++c) to[c] += gradients[c] * factor;
      }
    }
  }
}

std::unique_ptr<CpuKernel> make_avgpool2d_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([w = Pool2dWindow(attributes, op.inputs[0].shape, op.outputs[0].shape),
                      include = attributes.count_include_pad, count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const x = input(addresses, 0);
    float* const y = output(addresses, 0);
    parallel_tasks(count <= serial_elements ? 1 : threads, w.images * w.out_height, [&](std::int64_t i) {
      avgpool_row(w, include, x + i / w.out_height * w.image_elements(), y + i * w.out_width * w.channels,
                  i % w.out_height);
    });
  });
}

std::unique_ptr<CpuKernel> make_avgpool2d_backward_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([w = Pool2dWindow(attributes, op.outputs[0].shape, op.inputs[0].shape),
                      include = attributes.count_include_pad, count = op.outputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const dy = input(addresses, 0);
    float* const dx = output(addresses, 0);
    parallel_tasks(count <= serial_elements ? 1 : threads, w.images, [&](std::int64_t image) {
      float* const to = dx + image * w.image_elements();
      std::fill_n(to, w.image_elements(), 0.0F);
      for (std::int64_t row = 0; row < w.out_height; ++row)
        avgpool_backward_row(w, include, dy + (image * w.out_height + row) * w.out_width * w.channels, to, row);
    });
  });
}

}  // namespace

const CpuOp avgpool2d_on_cpu = {make_avgpool2d_kernel, cut_by_image};
const CpuOp avgpool2d_backward_on_cpu = {make_avgpool2d_backward_kernel, cut_by_image};

}  // namespace trainer
