#include <omp.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>

#include "engine/cpu/channel_rows.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/row_pieces.h"
#include "engine/half.h"

namespace trainer {

namespace {

// Note [Samples and pieces]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// Statistics are of a sample, so a batch of many samples is computed sample by sample: each is read for its sums and,
// as a rule still in the cache, once more for its result, by one thread, with scratch for one sample a thread. A batch
// of few samples, of large images as a rule, is cut into pieces of rows instead, whose sums are kept side by side until
// all of a sample are there. Which of the two, and where the cuts are, depends on the shape alone; so do the bits.

struct GroupNormShape {
  std::int64_t samples = 0, rows = 0, channels = 0, groups = 0;

  GroupNormShape(const TensorType& x, std::int64_t groups_of_channels)
      : samples(x.shape[0]), channels(x.shape[-1]), groups(groups_of_channels) {
    rows = samples * channels > 0 ? x.num_elements() / (samples * channels) : 0;
  }

  std::int64_t group_channels() const { return channels / groups; }
  bool goes_by_sample() const { return samples >= 16; }
  /// Of samples whose gradients of weights are added up one after the other.
  RowParts sample_parts() const { return row_parts(samples, 1); }
  /// Of a sample's rows, where it does not go by sample.
  RowParts row_pieces() const { return row_parts(rows, rows_per_f32_sum, std::max<std::int64_t>(1, 64 / samples)); }
  int num_threads(const CpuContext& context) const {
    return samples * rows * channels <= serial_elements ? 1 : context.num_threads;
  }
};

/// f32 numbers a channel that a sample's lines take: forward scale and offset, backward three of dx, the scale and
/// offset of ReLU, and the mean.
constexpr std::int64_t forward_lines = 2, backward_lines = 6;

/// What an op's scratch holds, one behind the other.
struct GroupNormScratch {
  std::int64_t num_sums = 0;       ///< f64: two a channel for each thread or piece
  std::int64_t num_gradients = 0;  ///< f64: two a channel for each part of the samples
  std::int64_t num_lines = 0;      ///< f32: of each thread or sample
  std::int64_t piece_bytes = 0;    ///< of RowPieces

  GroupNormScratch(const Op& op, const GroupNormShape& shape, int num_threads) {
    const bool is_backward = op.kind == OpKind::groupnorm_backward;
    const bool has_sums = op.kind != OpKind::groupnorm_normalize;
    const std::int64_t of_sample = 2 * shape.channels;
    const bool by_sample = shape.goes_by_sample();
    const std::int64_t at_once = by_sample ? std::min<std::int64_t>(num_threads, shape.samples) : shape.samples;
    if (has_sums) num_sums = of_sample * at_once * (by_sample ? 1 : shape.row_pieces().num_parts);
    if (is_backward && attributes_of<GroupNormAttributes>(op).affine)
      num_gradients = of_sample * (by_sample ? shape.sample_parts().num_parts : 1);
    num_lines = (is_backward ? backward_lines : forward_lines) * shape.channels * at_once;
    piece_bytes = RowPieces::num_scratch_bytes(op.inputs[0].dtype, shape.channels, is_backward ? 2 : 1, num_threads);
  }

  std::int64_t num_bytes() const {
    return (num_sums + num_gradients) * static_cast<std::int64_t>(sizeof(double)) +
           num_lines * static_cast<std::int64_t>(sizeof(float)) + piece_bytes;
  }
};

/// What all kernels of group norm keep of their op, and where they find their scratch.
class AnyGroupNormKernel : public CpuKernel {
 public:
  AnyGroupNormKernel(const Op& op, const CpuContext& context)
      : context_(context),
        attributes_(attributes_of<GroupNormAttributes>(op)),
        shape_(op.inputs[0], attributes_.groups),
        type_(op.inputs[0].dtype),
        scratch_(op, shape_, context.num_threads) {}

 protected:
  struct Places {
    double *sums, *gradients;
    float* lines;
    RowPieces pieces;
  };
  Places places(void* workspace, int num_tensors) const {
    auto* const sums = static_cast<double*>(workspace);
    double* const gradients = sums + scratch_.num_sums;
    auto* const lines = reinterpret_cast<float*>(gradients + scratch_.num_gradients);
    return {sums, gradients, lines, RowPieces(type_, shape_.channels, num_tensors, lines + scratch_.num_lines)};
  }

  /// Calls whole(sample, place) for each sample; `place` is its own among those whose scratch is held at once.
  template <typename Whole>
  void for_each_sample(Whole&& whole) const {
    const RowParts parts = shape_.sample_parts();
    parallel_tasks(shape_.num_threads(context_), parts.num_parts, [&](std::int64_t part) {
      for (std::int64_t sample = parts.begin(part); sample < parts.end(part); ++sample)
        whole(part, sample, static_cast<std::int64_t>(omp_get_thread_num()));
    });
  }
  /// Calls visit(sample, piece, begin, end) with rows of the whole batch.
  template <typename Visit>
  void for_each_piece(const RowParts& pieces, Visit&& visit) const {
    parallel_tasks(shape_.num_threads(context_), shape_.samples * pieces.num_parts, [&](std::int64_t i) {
      const std::int64_t sample = i / pieces.num_parts, piece = i % pieces.num_parts;
      const std::int64_t first = sample * shape_.rows;
      visit(sample, piece, first + pieces.begin(piece), first + pieces.end(piece));
    });
  }

  /// A sample's statistics over its channels.
  void spread_lines(const float* mean, const float* rstd, const float* weight, const float* bias, float* scale,
                    float* offset) const {
    const std::int64_t width = shape_.group_channels();
    for (std::int64_t g = 0; g < shape_.groups; ++g) {
      const auto reciprocal = static_cast<double>(rstd[g]), centre = static_cast<double>(mean[g]);
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
        const double slope = weight != nullptr ? static_cast<double>(weight[c]) * reciprocal : reciprocal;
        scale[c] = static_cast<float>(slope);
        offset[c] = static_cast<float>((bias != nullptr ? static_cast<double>(bias[c]) : 0.0) - centre * slope);
      }
    }
  }

  void scale_piece(const RowPieces& pieces, const void* x, void* y, const float* scale, const float* offset,
                   std::int64_t first, std::int64_t last) const {
    pieces.for_each(first, last, [&](std::int64_t begin, std::int64_t end) {
      scale_rows(pieces.read(x, 0, begin, end), scale, offset, attributes_.relu, pieces.write(y, 0, begin), end - begin,
                 shape_.channels);
      pieces.written(y, 0, begin, end);
    });
  }

  const CpuContext& context_;
  GroupNormAttributes attributes_;
  GroupNormShape shape_;
  DType type_;  ///< of x and y, dy and dx
  GroupNormScratch scratch_;
};

class GroupNormKernel final : public AnyGroupNormKernel {
 public:
  using AnyGroupNormKernel::AnyGroupNormKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const void* const x = addresses.inputs[0];
    void* const y = addresses.outputs[0];
    const float* const weight = attributes_.affine ? input(addresses, 1) : nullptr;
    const float* const bias = attributes_.affine ? input(addresses, 2) : nullptr;
    const auto [sums, gradients, lines, pieces] = places(addresses.workspace, 1);
    const std::int64_t channels = shape_.channels, rows = shape_.rows;
    const auto line = [&, lines = lines](std::int64_t place) { return lines + place * forward_lines * channels; };
    /// One row of a sample serves as the shift; y may be x, so it is kept apart, where the offset will be.
    const auto keep_shift = [&](std::int64_t sample, float* shift) {
      const std::int64_t row_bytes = channels * static_cast<std::int64_t>(size_of(type_));
      const std::int64_t row = sample * rows + shift_row(rows);
      widen(type_, static_cast<const std::byte*>(x) + row * row_bytes, shift, channels);
    };
    const auto add_piece = [&, pieces = pieces](double* of_piece, const float* shift, std::int64_t first,
                                                std::int64_t last) {
      std::fill_n(of_piece, 2 * channels, 0.0);
      pieces.for_each(first, last, [&](std::int64_t begin, std::int64_t end) {
        sum_moments(pieces.read(x, 0, begin, end), shift, end - begin, channels, of_piece, of_piece + channels);
      });
    };
    const auto settle = [&](std::int64_t sample, const double* of_sample, float* scale) {
      float* const mean = output(addresses, 1) + sample * shape_.groups;
      float* const rstd = output(addresses, 2) + sample * shape_.groups;
      settle_groups(of_sample, scale + channels, mean, rstd);
      spread_lines(mean, rstd, weight, bias, scale, scale + channels);
    };

    if (shape_.goes_by_sample()) {
      for_each_sample([&, sums = sums, pieces = pieces](std::int64_t, std::int64_t sample, std::int64_t place) {
        double* const of_sample = sums + place * 2 * channels;
        float* const scale = line(place);
        keep_shift(sample, scale + channels);
        add_piece(of_sample, scale + channels, sample * rows, (sample + 1) * rows);
        settle(sample, of_sample, scale);
        scale_piece(pieces, x, y, scale, scale + channels, sample * rows, (sample + 1) * rows);
      });
      return;
    }
    const RowParts parts = shape_.row_pieces();
    for (std::int64_t sample = 0; sample < shape_.samples; ++sample) keep_shift(sample, line(sample) + channels);
    for_each_piece(
        parts, [&, sums = sums](std::int64_t sample, std::int64_t piece, std::int64_t begin, std::int64_t end) {
          add_piece(sums + (sample * parts.num_parts + piece) * 2 * channels, line(sample) + channels, begin, end);
        });
    parallel_tasks(shape_.num_threads(context_), shape_.samples, [&, sums = sums](std::int64_t sample) {
      double* const of_sample = sums + sample * parts.num_parts * 2 * channels;
      add_parts(of_sample, parts.num_parts, 2 * channels);
      settle(sample, of_sample, line(sample));
    });
    for_each_piece(parts,
                   [&, pieces = pieces](std::int64_t sample, std::int64_t, std::int64_t begin, std::int64_t end) {
                     scale_piece(pieces, x, y, line(sample), line(sample) + channels, begin, end);
                   });
  }

 private:
  /// From the sums of x − shift and of its square of each channel: a channel's moments, merged by the formula of Chan,
  /// Golub and LeVeque (1979).
  void settle_groups(const double* of_sample, const float* shift, float* mean, float* rstd) const {
    const std::int64_t width = shape_.group_channels();
    const auto rows = static_cast<double>(shape_.rows);
    const double *const first = of_sample, *const second = of_sample + shape_.channels;
    for (std::int64_t g = 0; g < shape_.groups; ++g) {
      double centre = 0;
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c)
        centre += static_cast<double>(shift[c]) + first[c] / rows;
      centre /= static_cast<double>(width);
      double squares = 0;
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
        const double of_channel = first[c] / rows;
        const double apart = static_cast<double>(shift[c]) + of_channel - centre;
        squares += std::max(second[c] - first[c] * of_channel, 0.0) + rows * apart * apart;
      }
      mean[g] = static_cast<float>(centre);
      rstd[g] = static_cast<float>(1 / std::sqrt(squares / (rows * static_cast<double>(width)) + attributes_.eps));
    }
  }
};

class GroupNormNormalizeKernel final : public AnyGroupNormKernel {
 public:
  using AnyGroupNormKernel::AnyGroupNormKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const float* const weight = attributes_.affine ? input(addresses, 3) : nullptr;
    const float* const bias = attributes_.affine ? input(addresses, 4) : nullptr;
    const auto [sums, gradients, lines, pieces] = places(addresses.workspace, 1);
    const std::int64_t channels = shape_.channels, rows = shape_.rows;
    const auto fill_lines = [&, lines = lines](std::int64_t sample, std::int64_t place) {
      float* const scale = lines + place * forward_lines * channels;
      spread_lines(input(addresses, 1) + sample * shape_.groups, input(addresses, 2) + sample * shape_.groups, weight,
                   bias, scale, scale + channels);
      return scale;
    };
    const auto scale_some = [&, pieces = pieces](const float* scale, std::int64_t begin, std::int64_t end) {
      scale_piece(pieces, addresses.inputs[0], addresses.outputs[0], scale, scale + channels, begin, end);
    };
    if (shape_.goes_by_sample()) {
      for_each_sample([&](std::int64_t, std::int64_t sample, std::int64_t place) {
        scale_some(fill_lines(sample, place), sample * rows, (sample + 1) * rows);
      });
      return;
    }
    for (std::int64_t sample = 0; sample < shape_.samples; ++sample) fill_lines(sample, sample);
    for_each_piece(shape_.row_pieces(),
                   [&, lines = lines](std::int64_t sample, std::int64_t, std::int64_t begin, std::int64_t end) {
                     scale_some(lines + sample * forward_lines * channels, begin, end);
                   });
  }
};

class GroupNormBackwardKernel final : public AnyGroupNormKernel {
 public:
  using AnyGroupNormKernel::AnyGroupNormKernel;

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const float* const weight = attributes_.affine ? input(addresses, 4) : nullptr;
    const float* const bias = attributes_.affine && attributes_.relu ? input(addresses, 5) : nullptr;
    const void *const dy = addresses.inputs[0], *const x = addresses.inputs[1];
    void* const dx = addresses.outputs[0];
    const auto [sums, gradients, lines, pieces] = places(addresses.workspace, 2);
    const std::int64_t channels = shape_.channels, rows = shape_.rows;
    const auto lines_at = [&, lines = lines](std::int64_t place) {
      return GradientLines(lines + place * backward_lines * channels, channels);
    };
    const auto read = [&, pieces = pieces](const GradientLines& of, std::int64_t begin, std::int64_t end) {
      return GradientRows{pieces.read(dy, 0, begin, end), pieces.read(x, 1, begin, end),
                          attributes_.relu ? of.scale : nullptr, attributes_.relu ? of.offset : nullptr, channels};
    };
    const auto begin_sample = [&](std::int64_t sample, const GradientLines& of) {
      const float* const mean = input(addresses, 2) + sample * shape_.groups;
      const float* const rstd = input(addresses, 3) + sample * shape_.groups;
      if (attributes_.relu) spread_lines(mean, rstd, weight, bias, of.scale, of.offset);
      for (std::int64_t c = 0; c < channels; ++c) of.mean[c] = mean[c / shape_.group_channels()];
    };
    const auto add_piece = [&, pieces = pieces](double* of_piece, const GradientLines& of, std::int64_t first,
                                                std::int64_t last) {
      std::fill_n(of_piece, 2 * channels, 0.0);
      pieces.for_each(first, last, [&](std::int64_t begin, std::int64_t end) {
        sum_gradients(read(of, begin, end), of.mean, end - begin, of_piece, of_piece + channels);
      });
    };
    const auto settle = [&](std::int64_t sample, const double* of_sample, const GradientLines& of) {
      settle_groups(of_sample, input(addresses, 2) + sample * shape_.groups,
                    input(addresses, 3) + sample * shape_.groups, weight, of);
    };
    const auto add_gradients = [&](std::int64_t sample, const double* of_sample, double* to) {
      const float* const rstd = input(addresses, 3) + sample * shape_.groups;
      for (std::int64_t c = 0; c < channels; ++c) {
        to[c] += of_sample[channels + c] * static_cast<double>(rstd[c / shape_.group_channels()]);
        to[channels + c] += of_sample[c];
      }
    };
    const auto finish_piece = [&, pieces = pieces](const GradientLines& of, std::int64_t first, std::int64_t last) {
      pieces.for_each(first, last, [&](std::int64_t begin, std::int64_t end) {
        combine_rows(read(of, begin, end), of.a, of.b, of.d, pieces.write(dx, 0, begin), end - begin);
        pieces.written(dx, 0, begin, end);
      });
    };

    std::int64_t num_parts = 1;
    if (attributes_.affine) std::fill_n(gradients, scratch_.num_gradients, 0.0);
    if (shape_.goes_by_sample()) {
      num_parts = shape_.sample_parts().num_parts;
      for_each_sample(
          [&, sums = sums, gradients = gradients](std::int64_t part, std::int64_t sample, std::int64_t place) {
            double* const of_sample = sums + place * 2 * channels;
            const GradientLines of = lines_at(place);
            begin_sample(sample, of);
            add_piece(of_sample, of, sample * rows, (sample + 1) * rows);
            settle(sample, of_sample, of);
            if (attributes_.affine) add_gradients(sample, of_sample, gradients + part * 2 * channels);
            finish_piece(of, sample * rows, (sample + 1) * rows);
          });
    } else {
      const RowParts parts = shape_.row_pieces();
      for (std::int64_t sample = 0; sample < shape_.samples; ++sample) begin_sample(sample, lines_at(sample));
      for_each_piece(
          parts, [&, sums = sums](std::int64_t sample, std::int64_t piece, std::int64_t begin, std::int64_t end) {
            add_piece(sums + (sample * parts.num_parts + piece) * 2 * channels, lines_at(sample), begin, end);
          });
      for (std::int64_t sample = 0; sample < shape_.samples; ++sample) {
        double* const of_sample = sums + sample * parts.num_parts * 2 * channels;
        add_parts(of_sample, parts.num_parts, 2 * channels);
        settle(sample, of_sample, lines_at(sample));
        if (attributes_.affine) add_gradients(sample, of_sample, gradients);
      }
      for_each_piece(parts, [&](std::int64_t sample, std::int64_t, std::int64_t begin, std::int64_t end) {
        finish_piece(lines_at(sample), begin, end);
      });
    }
    if (!attributes_.affine) return;
    add_parts(gradients, num_parts, 2 * channels);
    for (std::int64_t c = 0; c < channels; ++c) {
      output(addresses, 1)[c] = static_cast<float>(gradients[c]);
      output(addresses, 2)[c] = static_cast<float>(gradients[channels + c]);
    }
  }

 private:
  /// Of a sample, over its channels: dx = g · a + x · b + d, the line whose sign ReLU goes by, and the mean.
  struct GradientLines {
    float *a, *b, *d, *scale, *offset, *mean;

    GradientLines(float* first, std::int64_t channels)
        : a(first),
          b(a + channels),
          d(b + channels),
          scale(d + channels),
          offset(scale + channels),
          mean(offset + channels) {}
  };

  // dx = rstd·(w·g − Σ(w·g)/m − x̂·Σ(w·g·x̂)/m) with x̂ = (x − mean)·rstd and sums over the m numbers of the group, as one
  // linear function of g and x.
  void settle_groups(const double* of_sample, const float* mean, const float* rstd, const float* weight,
                     const GradientLines& of) const {
    const std::int64_t width = shape_.group_channels();
    const double count = static_cast<double>(shape_.rows) * static_cast<double>(width);
    for (std::int64_t g = 0; g < shape_.groups; ++g) {
      const auto reciprocal = static_cast<double>(rstd[g]);
      const auto weight_at = [&](std::int64_t c) { return weight != nullptr ? static_cast<double>(weight[c]) : 1.0; };
      double sum = 0, product = 0;
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
        sum += weight_at(c) * of_sample[c];
        product += weight_at(c) * of_sample[shape_.channels + c];
      }
      const double of_x = -reciprocal * reciprocal * reciprocal * product / count;
      const double rest = -reciprocal * sum / count - of_x * static_cast<double>(mean[g]);
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
        of.a[c] = static_cast<float>(weight_at(c) * reciprocal);
        of.b[c] = static_cast<float>(of_x);
        of.d[c] = static_cast<float>(rest);
      }
    }
  }
};

std::int64_t groupnorm_workspace_bytes(const Op& op, CpuContext& context) {
  const GroupNormShape shape(op.inputs[0], attributes_of<GroupNormAttributes>(op).groups);
  return GroupNormScratch(op, shape, context.num_threads).num_bytes();
}

template <std::derived_from<AnyGroupNormKernel> One>
std::unique_ptr<CpuKernel> make_groupnorm(const Op& op, CpuContext& context) {
  return std::make_unique<One>(op, context);
}

}  // namespace

const CpuOp groupnorm_on_cpu = {make_groupnorm<GroupNormKernel>, takes_16_bit, groupnorm_workspace_bytes};
const CpuOp groupnorm_normalize_on_cpu = {make_groupnorm<GroupNormNormalizeKernel>, takes_16_bit,
                                          groupnorm_workspace_bytes};
const CpuOp groupnorm_backward_on_cpu = {make_groupnorm<GroupNormBackwardKernel>, takes_16_bit,
                                         groupnorm_workspace_bytes};

}  // namespace trainer
