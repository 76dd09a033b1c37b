#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/mixed_sample.h"
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

/// y = (share · pixels + (1 − share) · partner) · scale + offset, as many as there are of these
TRAINER_SIMD void blend_loop(const std::uint8_t* pixels, const std::uint8_t* partner, float share, const float* scale,
                             const float* offset, float* y, std::int64_t count) {
  const float other_share = 1 - share;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float blended = static_cast<float>(pixels[i]) * share + static_cast<float>(partner[i]) * other_share;
    y[i] = blended * scale[i] + offset[i];
  }
}

std::vector<float> repeated(const std::vector<float>& values) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < period_pixels; ++i) result.insert(result.end(), values.begin(), values.end());
  return result;
}

/// The pixels of a batch that is mixed, of which each sample is made of two.
class MixedPixels {
 public:
  MixedPixels(const Op& op, const NormalizePixelsAttributes& attributes)
      : rows_(op.inputs[0].shape[1]),
        channels_(op.inputs[0].shape[3]),
        row_elements_(op.inputs[0].shape[2] * channels_),
        type_(op.outputs[0].dtype),
        scale_(repeated(attributes.scale)),
        offset_(repeated(attributes.offset)) {}

  /// Row number `row` of the whole batch.
  void normalize(const std::uint8_t* pixels, const MixedSample* mixing, std::int64_t row, std::byte* y) const {
    const std::int64_t sample = row / rows_, at = row % rows_;
    const MixedSample& mixed = mixing[sample];
    const std::uint8_t* const own = pixels + row * row_elements_;
    const std::uint8_t* const partner = pixels + (mixed.partner * rows_ + at) * row_elements_;
    std::byte* const y_row = y + row * row_elements_ * static_cast<std::int64_t>(size_of(type_));
    const bool has_box = mixed.top <= at && at < mixed.bottom;
    const std::int64_t left = has_box ? mixed.left * channels_ : row_elements_;
    const std::int64_t right = has_box ? mixed.right * channels_ : row_elements_;
    blend(own, partner, mixed.blend, 0, left, y_row);
    blend(own, partner, 0, left, right, y_row);
    blend(own, partner, mixed.blend, right, row_elements_, y_row);
  }

 private:
  /// Elements begin … end − 1 of a row, both at the beginning of a pixel.
  void blend(const std::uint8_t* own, const std::uint8_t* partner, float share, std::int64_t begin, std::int64_t end,
             std::byte* y) const {
    const auto period = static_cast<std::int64_t>(scale_.size());
    for (std::int64_t first = begin; first < end;) {
      const std::int64_t phase = (first - begin) % period;
      const std::int64_t count = std::min({stack_elements, period - phase, end - first});
      const float *const scale = scale_.data() + phase, *const offset = offset_.data() + phase;
      if (type_ == DType::f32) {
        blend_loop(own + first, partner + first, share, scale, offset, reinterpret_cast<float*>(y) + first, count);
      } else {
        float values[stack_elements];
        blend_loop(own + first, partner + first, share, scale, offset, values, count);
        narrow(type_, values, y + 2 * first, count);
      }
      first += count;
    }
  }

  std::int64_t rows_, channels_, row_elements_;
  DType type_;
  std::vector<float> scale_, offset_;
};

std::unique_ptr<CpuKernel> make_mixing_kernel(const Op& op, const NormalizePixelsAttributes& attributes,
                                              int num_threads) {
  const std::int64_t num_rows = op.inputs[0].shape[0] * op.inputs[0].shape[1];
  const std::int64_t count = op.inputs[0].num_elements();
  return make_kernel([pixels = MixedPixels(op, attributes), threads = count <= serial_elements ? 1 : num_threads,
                      num_rows](const OperandAddresses& addresses, const StepScalars&) {
    parallel_tasks(threads, num_rows, [&](std::int64_t row) {
      pixels.normalize(input<std::uint8_t>(addresses, 0), input<MixedSample>(addresses, 1), row,
                       output<std::byte>(addresses, 0));
    });
  });
}

std::unique_ptr<CpuKernel> make_normalize_pixels_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<NormalizePixelsAttributes>(op);
  require_internal(static_cast<std::int64_t>(attributes.scale.size()) == op.inputs[0].shape[-1] &&
                       attributes.offset.size() == attributes.scale.size(),
                   "pixels are normalised by one scale and offset a channel");
  if (mixes_pixels(op)) return make_mixing_kernel(op, attributes, context.num_threads);
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
