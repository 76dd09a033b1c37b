#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void average_image(const float* x, float* y, std::int64_t pixels, std::int64_t channels) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) y[c] = 0;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) y[c] += x[pixel * channels + c];
  }
  const float factor = 1.0F / static_cast<float>(pixels);
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) y[c] *= factor;
}

TRAINER_SIMD void spread_image(const float* dy, float* dx, std::int64_t pixels, std::int64_t channels) {
  const float factor = 1.0F / static_cast<float>(pixels);
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) dx[pixel * channels + c] = dy[c] * factor;
  }
}

std::unique_ptr<CpuKernel> make_global_avgpool_kernel(const Op& op, CpuContext& context) {
  const Shape& shape = op.inputs[0].shape;
  return make_kernel([images = shape[0], pixels = shape[1] * shape[2], channels = shape[3],
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const x = input(addresses, 0);
    float* const y = output(addresses, 0);
    parallel_tasks(images * pixels * channels <= serial_elements ? 1 : threads, images, [&](std::int64_t image) {
      average_image(x + image * pixels * channels, y + image * channels, pixels, channels);
    });
  });
}

std::unique_ptr<CpuKernel> make_global_avgpool_backward_kernel(const Op& op, CpuContext& context) {
  const Shape& shape = op.outputs[0].shape;
  return make_kernel([images = shape[0], pixels = shape[1] * shape[2], channels = shape[3],
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const dy = input(addresses, 0);
    float* const dx = output(addresses, 0);
    parallel_tasks(images * pixels * channels <= serial_elements ? 1 : threads, images, [&](std::int64_t image) {
      spread_image(dy + image * channels, dx + image * pixels * channels, pixels, channels);
    });
  });
}

}  // namespace

const CpuOp global_avgpool_on_cpu = {make_global_avgpool_kernel, cut_by_image};
const CpuOp global_avgpool_backward_on_cpu = {make_global_avgpool_backward_kernel, cut_by_image};

}  // namespace trainer
