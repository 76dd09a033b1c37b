#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "cuda/kernels/row_parts.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// x (N, …, C) as (samples, rows, channels), its channels in groups of equal width.
struct GroupNormShape {
  std::int64_t samples = 0, rows = 0, channels = 0, groups = 1;

  constexpr std::int64_t group_channels() const { return channels / groups; }
};

/// A block that does everything for whole groups of a sample has at most so many channels.
inline constexpr std::int64_t groupnorm_most_channels = 1024;

/// What such a block takes in packs of n: whole groups that are whole packs, more of them where rows are few.
constexpr std::int64_t groupnorm_block_channels(const GroupNormShape& shape, std::int64_t n) {
  constexpr std::int64_t most_rows_side_by_side = 32, elements = 2048;
  std::int64_t side_by_side = 1;
  while (side_by_side < most_rows_side_by_side && side_by_side < shape.rows) side_by_side *= 2;
  const std::int64_t least = std::lcm(shape.group_channels(), n);
  const std::int64_t wanted = std::min(groupnorm_most_channels, elements / side_by_side);
  return std::min(shape.channels, std::max(least, wanted / least * least));
}

/// Where a sample's groups are small, a block has one or more of them and one launch does everything; else sums over
/// parts of the rows, their combination for each group, and the pass over the elements are launches of their own.
constexpr bool groupnorm_is_one_launch(const GroupNormShape& shape) {
  constexpr std::int64_t most_rows = 1024, most_elements = 1 << 16;
  const std::int64_t widest_pack = shape.channels % 8 == 0 ? 8 : shape.channels % 4 == 0 ? 4 : 1;
  const std::int64_t channels = groupnorm_block_channels(shape, widest_pack);
  return shape.rows <= most_rows && channels <= groupnorm_most_channels && shape.rows * channels <= most_elements;
}

/// Of a sample's rows, where it takes several launches: few where there are many samples.
constexpr RowParts groupnorm_row_parts(const GroupNormShape& shape) {
  const RowParts alone = row_parts(shape.rows, shape.channels);
  return parts_of_rows(
      shape.rows, alone.rows_per_part,
      std::max<std::int64_t>(1, most_row_parts(shape.channels) / std::max<std::int64_t>(1, shape.samples)));
}

/// Of the samples, where one launch does everything: a block adds up the gradients of weights over those of a part,
/// 16 rows or more.
constexpr RowParts groupnorm_sample_parts(const GroupNormShape& shape) {
  constexpr std::int64_t least_rows = 16, most_parts = 1024;
  return parts_of_rows(shape.samples, (least_rows + shape.rows - 1) / std::max<std::int64_t>(1, shape.rows),
                       most_parts);
}

/// A pair of f32 for each sample, part of its rows and channel.
constexpr std::int64_t groupnorm_forward_workspace_bytes(const GroupNormShape& shape) {
  if (groupnorm_is_one_launch(shape)) return 0;
  return 8 * shape.samples * groupnorm_row_parts(shape).num_parts * shape.channels;
}
/// And one for each sample and group. In one launch, where gradients of weights are wanted, one for each part of the
/// samples and channel, if there are several.
constexpr std::int64_t groupnorm_backward_workspace_bytes(const GroupNormShape& shape, bool affine) {
  if (!groupnorm_is_one_launch(shape))
    return groupnorm_forward_workspace_bytes(shape) + 8 * shape.samples * shape.groups;
  const std::int64_t num_parts = groupnorm_sample_parts(shape).num_parts;
  return affine && num_parts > 1 ? 8 * num_parts * shape.channels : 0;
}

/// Statistics over (samples, groups), weight and bias over the channels, f32; x and y of the type that the launcher is
/// told.
struct GroupNormForward {
  const void* x = nullptr;
  void* y = nullptr;              ///< may be x
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0
  float* mean = nullptr;
  float* rstd = nullptr;
  void* workspace = nullptr;
  double eps = 0;
  bool relu = false;
};

/// mean and biased variance over a sample's rows and a group's channels; y = (x − mean) · rstd · weight + bias, then
/// ReLU. NaN passes. Bytes: x twice, the second time from the cache where one launch does everything, else where x fits
/// there; y once; the workspace three times. FLOPs: 11 an element.
void groupnorm_forward(DType type, const GroupNormForward& operands, const GroupNormShape& shape, Stream stream);

struct GroupNormNormalize {
  const void* x = nullptr;
  void* y = nullptr;  ///< may be x
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0
  bool relu = false;
};

/// y once more, bit for bit, from the mean and rstd that the forward pass wrote: Note [Normalised again] in
/// batchnorm2d_line.cuh. Bytes: x and y once. FLOPs: 3 an element.
void groupnorm_normalize(DType type, const GroupNormNormalize& operands, const GroupNormShape& shape, Stream stream);

struct GroupNormBackward {
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0; only read with relu
  void* dx = nullptr;             ///< may be dy
  float* dweight = nullptr;       ///< null together with dbias: not wanted
  float* dbias = nullptr;
  void* workspace = nullptr;
  bool relu = false;  ///< dy counts where y was above 0, else everywhere
};

/// dx = rstd · (w·g − Σ(w·g) / m − x̂ · Σ(w·g·x̂) / m) with x̂ = (x − mean) · rstd, g = dy where it counts, w = weight and
/// sums over the m numbers of a group; dweight = Σ(g·x̂) and dbias = Σg over samples and rows. y is computed anew (Note
/// [Normalised again] in batchnorm2d_line.cuh). Bytes: dy and x twice, the second time from the cache where one launch
/// does everything, and dx once; the workspace three times. FLOPs: 12 an element, 18 with ReLU.
void groupnorm_backward(DType type, const GroupNormBackward& operands, const GroupNormShape& shape, Stream stream);

}  // namespace trainer::cuda
