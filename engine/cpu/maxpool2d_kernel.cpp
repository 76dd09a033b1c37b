#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/pool2d_window.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr std::int64_t tile_channels = 64;

/// Where NaN is the first of a window it stays; where it comes later it wins and stays, as in PyTorch.
TRAINER_SIMD_INLINE bool takes_over(float value, float best) {
  return value > best || (value != value && best == best);
}

/// One row of outputs; `x` is its image. Where `indices` is null they are not stored.
TRAINER_SIMD void maxpool_row(const Pool2dWindow& w, bool relu, const float* x, float* y, std::uint8_t* indices,
                              std::int64_t out_row) {
  const Pool2dWindow::Range rows = w.rows(out_row);
  for (std::int64_t out_column = 0; out_column < w.out_width; ++out_column) {
    const Pool2dWindow::Range columns = w.columns(out_column);
    for (std::int64_t c = 0; c < w.channels; c += tile_channels) {
      const std::int64_t width = w.channels - c < tile_channels ? w.channels - c : tile_channels;
      float best[tile_channels];
      std::int32_t index[tile_channels];
      bool first = true;
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
          const float* const values = x + (row * w.in_width + column) * w.channels + c;
          const auto position =
              static_cast<std::int32_t>((row - rows.start) * w.kernel_width + (column - columns.start));
          if (first) {
#pragma omp simd
            for (std::int64_t i = 0; i < width; ++i) best[i] = values[i];
#pragma omp simd
            for (std::int64_t i = 0; i < width; ++i) index[i] = position;
          } else {
#pragma omp simd
            for (std::int64_t i = 0; i < width; ++i) {
              const bool taken = takes_over(values[i], best[i]);
              best[i] = taken ? values[i] : best[i];
              index[i] = taken ? position : index[i];
            }
          }
          first = false;
        }
      }
      if (relu) {
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) {
          index[i] = best[i] > 0 ? index[i] : no_position;
          best[i] = best[i] < 0 ? 0 : best[i];
        }
      }
      const std::int64_t at = out_column * w.channels + c;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) y[at + i] = best[i];
      if (indices == nullptr) continue;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) indices[at + i] = static_cast<std::uint8_t>(index[i]);
    }
  }
}

/// Gradients of one image from one row of outputs, added to what is there.
TRAINER_SIMD void maxpool_backward_row(const Pool2dWindow& w, const float* dy, const std::uint8_t* indices, float* dx,
                                       std::int64_t out_row) {
  const Pool2dWindow::Range rows = w.rows(out_row);
  for (std::int64_t out_column = 0; out_column < w.out_width; ++out_column) {
    const Pool2dWindow::Range columns = w.columns(out_column);
    const float* const gradients = dy + out_column * w.channels;
    const std::uint8_t* const chosen = indices + out_column * w.channels;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        float* const to = dx + (row * w.in_width + column) * w.channels;
        const auto position = static_cast<std::int32_t>((row - rows.start) * w.kernel_width + (column - columns.start));
#pragma omp simd
        for (std::int64_t c = 0; c < w.channels; ++c)
          to[c] += static_cast<std::int32_t>(chosen[c]) == position ? gradients[c] : 0.0F;
      }
    }
  }
}

/// The same where no two windows share an element: each is written once.
TRAINER_SIMD void maxpool_backward_row_apart(const Pool2dWindow& w, const float* dy, const std::uint8_t* indices,
                                             float* dx, std::int64_t out_row) {
  const Pool2dWindow::Range rows = w.rows(out_row);
  for (std::int64_t out_column = 0; out_column < w.out_width; ++out_column) {
    const Pool2dWindow::Range columns = w.columns(out_column);
    const float* const gradients = dy + out_column * w.channels;
    const std::uint8_t* const chosen = indices + out_column * w.channels;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        float* const to = dx + (row * w.in_width + column) * w.channels;
        const auto position = static_cast<std::int32_t>((row - rows.start) * w.kernel_width + (column - columns.start));
#pragma omp simd
        for (std::int64_t c = 0; c < w.channels; ++c)
          to[c] = static_cast<std::int32_t>(chosen[c]) == position ? gradients[c] : 0.0F;
      }
    }
  }
}

std::unique_ptr<CpuKernel> make_maxpool2d_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([w = Pool2dWindow(attributes, op.inputs[0].shape, op.outputs[0].shape),
                      keeps_indices = op.outputs.size() > 1, relu = attributes.relu,
                      count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const x = input(addresses, 0);
    float* const y = output(addresses, 0);
    auto* const indices = keeps_indices ? output<std::uint8_t>(addresses, 1) : nullptr;
    parallel_tasks(count <= serial_elements ? 1 : threads, w.images * w.out_height, [&](std::int64_t i) {
      const std::int64_t at = i * w.out_width * w.channels;
      maxpool_row(w, relu, x + i / w.out_height * w.image_elements(), y + at,
                  indices == nullptr ? nullptr : indices + at, i % w.out_height);
    });
  });
}

std::unique_ptr<CpuKernel> make_maxpool2d_backward_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([w = Pool2dWindow(attributes, op.outputs[0].shape, op.inputs[0].shape),
                      count = op.outputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const dy = input(addresses, 0);
    const auto* const indices = input<std::uint8_t>(addresses, 1);
    float* const dx = output(addresses, 0);
    parallel_tasks(count <= serial_elements ? 1 : threads, w.images, [&](std::int64_t image) {
      float* const to = dx + image * w.image_elements();
      if (!w.covers_each_element_once()) std::fill_n(to, w.image_elements(), 0.0F);
      for (std::int64_t row = 0; row < w.out_height; ++row) {
        const std::int64_t at = (image * w.out_height + row) * w.out_width * w.channels;
        (w.windows_are_apart() ? maxpool_backward_row_apart : maxpool_backward_row)(w, dy + at, indices + at, to, row);
      }
    });
  });
}

}  // namespace

const CpuOp maxpool2d_on_cpu = {make_maxpool2d_kernel, cut_by_image};
const CpuOp maxpool2d_backward_on_cpu = {make_maxpool2d_backward_kernel, cut_by_image};

}  // namespace trainer
