#include "engine/cpu/depthwise_weights.h"

#include <algorithm>
#include <array>

#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr std::int64_t vector_channels = 16;
/// Of a row of the kernel, that are summed in one pass over a row of dy.
constexpr std::int64_t most_taps_at_once = 5;

using ChannelVector = float __attribute__((vector_size(vector_channels * sizeof(float))));
/// The same at any address of floats.
using ChannelsInMemory =
    float __attribute__((vector_size(vector_channels * sizeof(float)), aligned(alignof(float)), may_alias));

struct DepthwiseRows {
  std::int64_t channels, in_height, in_width, out_height, out_width;
  std::int64_t kernel_height, kernel_width;
  std::array<std::int64_t, 2> stride, padding, dilation;
  bool has_bias;
  RowParts parts;  ///< of the rows of all images of dy

  explicit DepthwiseRows(const Op& op) {
    const auto& a = attributes_of<Conv2dAttributes>(op);
    const Shape &dy = op.inputs[0].shape, &x = op.inputs[1].shape;
    channels = x[3];
    in_height = x[1];
    in_width = x[2];
    out_height = dy[1];
    out_width = dy[2];
    kernel_height = a.kernel[0];
    kernel_width = a.kernel[1];
    stride = a.stride;
    padding = a.padding;
    dilation = a.dilation;
    has_bias = op.outputs.size() > 1;
    constexpr std::int64_t least_pixels = 512, most_parts = 32;
    parts = row_parts(dy[0] * out_height, (least_pixels + out_width - 1) / out_width, most_parts);
  }

  std::int64_t num_taps() const { return kernel_height * kernel_width; }
  /// Of a part: (taps, channels), then (channels) of the bias.
  std::int64_t part_elements() const { return (num_taps() + (has_bias ? 1 : 0)) * channels; }
};

/// Adds what `num_taps` neighbouring taps of one row of the kernel meet in one row of x and of dy, of 16 channels.
template <int num_taps>
TRAINER_SIMD_INLINE void add_taps(const DepthwiseRows& s, std::int64_t first_tap, const float* x, const float* dy,
                                  float* sums) {
  ChannelVector totals[num_taps];
  for (int t = 0; t < num_taps; ++t) totals[t] = *reinterpret_cast<const ChannelsInMemory*>(sums + t * s.channels);
  for (std::int64_t column = 0; column < s.out_width; ++column) {
    const ChannelVector gradient = *reinterpret_cast<const ChannelsInMemory*>(dy + column * s.channels);
    for (int t = 0; t < num_taps; ++t) {
      const std::int64_t from = column * s.stride[1] - s.padding[1] + (first_tap + t) * s.dilation[1];
      if (from < 0 || from >= s.in_width) continue;
      totals[t] += *reinterpret_cast<const ChannelsInMemory*>(x + from * s.channels) * gradient;
    }
  }
  for (int t = 0; t < num_taps; ++t) *reinterpret_cast<ChannelsInMemory*>(sums + t * s.channels) = totals[t];
}

/// The same of fewer channels.
TRAINER_SIMD_INLINE void add_taps_of(std::int64_t channels, const DepthwiseRows& s, std::int64_t first_tap,
                                     std::int64_t num_taps, const float* x, const float* dy, float* sums) {
  for (std::int64_t column = 0; column < s.out_width; ++column) {
    for (std::int64_t t = 0; t < num_taps; ++t) {
      const std::int64_t from = column * s.stride[1] - s.padding[1] + (first_tap + t) * s.dilation[1];
      if (from < 0 || from >= s.in_width) continue;
      for (std::int64_t c = 0; c < channels; ++c)
        sums[t * s.channels + c] += x[from * s.channels + c] * dy[column * s.channels + c];
    }
  }
}

/// Adds what row `out_row` of dy meets in one image x.
TRAINER_SIMD void add_depthwise_row(const DepthwiseRows& s, const float* x, const float* dy, std::int64_t out_row,
                                    float* sums) {
  for (std::int64_t i = 0; i < s.kernel_height; ++i) {
    const std::int64_t row = out_row * s.stride[0] - s.padding[0] + i * s.dilation[0];
    if (row < 0 || row >= s.in_height) continue;
    const float* const line = x + row * s.in_width * s.channels;
    for (std::int64_t first = 0; first < s.kernel_width; first += most_taps_at_once) {
      const std::int64_t num_taps = std::min(most_taps_at_once, s.kernel_width - first);
      float* const of_taps = sums + (i * s.kernel_width + first) * s.channels;
      std::int64_t c = 0;
      for (; c + vector_channels <= s.channels; c += vector_channels) {
        switch (num_taps) {
          case 1:
            add_taps<1>(s, first, line + c, dy + c, of_taps + c);
            break;
          case 2:
            add_taps<2>(s, first, line + c, dy + c, of_taps + c);
            break;
          case 3:
            add_taps<3>(s, first, line + c, dy + c, of_taps + c);
            break;
          case 4:
            add_taps<4>(s, first, line + c, dy + c, of_taps + c);
            break;
          default:
            add_taps<5>(s, first, line + c, dy + c, of_taps + c);
        }
      }
      if (c < s.channels) add_taps_of(s.channels - c, s, first, num_taps, line + c, dy + c, of_taps + c);
    }
  }
  if (!s.has_bias) return;
  float* const of_bias = sums + s.num_taps() * s.channels;
  for (std::int64_t column = 0; column < s.out_width; ++column) {
#pragma omp simd
    for (std::int64_t c = 0; c < s.channels; ++c) of_bias[c] += dy[column * s.channels + c];
  }
}

class DepthwiseWeightsKernel final : public CpuKernel {
 public:
  DepthwiseWeightsKernel(const Op& op, int num_threads) : rows_(op), num_threads_(num_threads) {}

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const DepthwiseRows& s = rows_;
    const float* const dy = input(addresses, 0);
    const float* const x = input(addresses, 1);
    auto* const sums = static_cast<float*>(addresses.workspace);
    const int threads = s.parts.rows * s.out_width * s.channels <= serial_elements ? 1 : num_threads_;
    parallel_tasks(threads, s.parts.num_parts, [&](std::int64_t part) {
      float* const of_part = sums + part * s.part_elements();
      std::fill_n(of_part, s.part_elements(), 0.0F);
      for (std::int64_t row = s.parts.begin(part); row < s.parts.end(part); ++row)
        add_depthwise_row(s, x + row / s.out_height * s.in_height * s.in_width * s.channels,
                          dy + row * s.out_width * s.channels, row % s.out_height, of_part);
    });
    for (std::int64_t tap = 0; tap < s.num_taps(); ++tap)
      combine(sums + tap * s.channels, output(addresses, 0) + tap, s.num_taps());
    if (s.has_bias) combine(sums + s.num_taps() * s.channels, output(addresses, 1), 1);
  }

 private:
  /// The sums over the parts, each channel's `apart` elements behind the last.
  void combine(const float* sums, float* to, std::int64_t apart) const {
    for (std::int64_t c = 0; c < rows_.channels; ++c) {
      double sum = 0;
      for (std::int64_t part = 0; part < rows_.parts.num_parts; ++part)
        sum += static_cast<double>(sums[part * rows_.part_elements() + c]);
      to[c * apart] = static_cast<float>(sum);
    }
  }

  DepthwiseRows rows_;
  int num_threads_;
};

}  // namespace

bool is_depthwise_weight_gradient(const Op& op) {
  if (op.kind != OpKind::conv2d_backward_weight) return false;
  const auto& a = attributes_of<Conv2dAttributes>(op);
  return a.groups > 1 && a.groups == a.out && a.groups == op.inputs[1].shape[3];
}

std::unique_ptr<CpuKernel> make_depthwise_weights_kernel(const Op& op, const CpuContext& context) {
  return std::make_unique<DepthwiseWeightsKernel>(op, context.num_threads);
}

std::int64_t depthwise_weights_workspace_bytes(const Op& op) {
  const DepthwiseRows rows(op);
  return rows.parts.num_parts * rows.part_elements() * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace trainer
