#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr std::int64_t period_pixels = 64;

/// scale and offset repeat with `period`, a multiple of the channels, so that the inner loop has no modulus.
TRAINER_SIMD void normalize_loop(const std::uint8_t* pixels, const float* scale, const float* offset, float* y,
                                 std::int64_t begin, std::int64_t end, std::int64_t period) {
  for (std::int64_t first = begin; first < end; first += period) {
    const std::int64_t count = end - first < period ? end - first : period;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
      y[first + i] = static_cast<float>(pixels[first + i]) * scale[i] + offset[i];
  }
}

/// The same into 16 bit: pieces that fit the stack and do not cross the end of a period.
void normalize_short(DType type, const std::uint8_t* pixels, const float* scale, const float* offset, std::byte* y,
                     std::int64_t begin, std::int64_t end, std::int64_t period) {
  float values[stack_elements];
  for (std::int64_t first = begin; first < end;) {
    const std::int64_t phase = first % period;
    const std::int64_t count = std::min({stack_elements, period - phase, end - first});
    normalize_loop(pixels + first, scale + phase, offset + phase, values, 0, count, count);
    narrow(type, values, y + 2 * first, count);
    first += count;
  }
}

std::vector<float> repeated(const std::vector<float>& values) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < period_pixels; ++i) result.insert(result.end(), values.begin(), values.end());
  return result;
}

std::unique_ptr<CpuKernel> make_normalize_pixels_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<NormalizePixelsAttributes>(op);
  require_internal(static_cast<std::int64_t>(attributes.scale.size()) == op.inputs[0].shape[-1] &&
                       attributes.offset.size() == attributes.scale.size(),
                   "pixels are normalised by one scale and offset a channel");
  return make_kernel([scale = repeated(attributes.scale), offset = repeated(attributes.offset),
                      type = op.outputs[0].dtype, count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const auto* const pixels = input<std::uint8_t>(addresses, 0);
    void* const y = addresses.outputs[0];
    const auto period = static_cast<std::int64_t>(scale.size());
    const RowParts blocks = row_parts(count, (8192 / period + 1) * period, count);
    parallel_tasks(count <= serial_elements ? 1 : threads, blocks.num_parts, [&](std::int64_t i) {
      if (type == DType::f32)
        normalize_loop(pixels, scale.data(), offset.data(), static_cast<float*>(y), blocks.begin(i), blocks.end(i),
                       period);
      else
        normalize_short(type, pixels, scale.data(), offset.data(), static_cast<std::byte*>(y), blocks.begin(i),
                        blocks.end(i), period);
    });
  });
}

}  // namespace

const CpuOp normalize_pixels_on_cpu = {make_normalize_pixels_kernel, takes_16_bit};

}  // namespace trainer
