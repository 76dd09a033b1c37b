#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/group_rows.cuh"
#include "cuda/kernels/groupnorm.h"
#include "cuda/kernels/pack.h"
#include "cuda/kernels/reduce.cuh"

namespace trainer::cuda {

namespace {

/// Rows of a thread whose loads are on their way together.
constexpr int group_rows_at_once = 2;

template <typename T>
struct GroupGradientOperands {
  const T* dy;
  const T* x;
  T* dx;  ///< may be dy: a thread reads a place before it writes there
  GroupLines lines;
  bool relu;
};

/// Some rows of dy and x as they are stored, and which of dy count as a bit for each.
template <typename T, int n, int num_rows>
struct LoadedGroupRows {
  Pack<T, n> dy[num_rows], x[num_rows];
  unsigned counts[num_rows];

  __device__ __forceinline__ LoadedGroupRows(const GroupGradientOperands<T>& operands, const Normalization<n>& line,
                                             std::int64_t at, std::int64_t step) {
    for (int u = 0; u < num_rows; ++u) {
      dy[u] = load_pack<n>(operands.dy + at + u * step);
      x[u] = load_pack<n>(operands.x + at + u * step);
      counts[u] = ~0u;
    }
    if (!operands.relu) return;
    for (int u = 0; u < num_rows; ++u) {
      counts[u] = 0;
      for (int i = 0; i < n; ++i) counts[u] |= line(to_float(x[u].values[i]), i) > 0 ? 1u << i : 0u;
    }
  }
  /// dy where it counts.
  __device__ __forceinline__ float g(int u, int i) const {
    return (counts[u] >> i & 1u) != 0 ? to_float(dy[u].values[i]) : 0.0f;
  }
};

/// Σg and Σ g·x̂ of rows begin + threadIdx.y, then every blockDim.y-th, below end, all of one sample; x̂ is
/// (x − mean) · rstd.
template <int n, typename T>
__device__ __forceinline__ ColumnSums<n> gradient_sums_of_rows(const GroupGradientOperands<T>& operands,
                                                               const GroupNormShape& shape, std::int64_t sample,
                                                               std::int64_t channel, std::int64_t begin,
                                                               std::int64_t end) {
  ColumnSums<n> total{};
  const auto line = operands.lines.template of<n>(shape, sample, channel);
  visit_rows<group_rows_at_once>(begin, end, channel, shape.channels,
                                 [&](std::int64_t at, std::int64_t step, auto rows) {
                                   constexpr int num_rows = decltype(rows)::value;
                                   const LoadedGroupRows<T, n, num_rows> loaded(operands, line, at, step);
                                   for (int i = 0; i < n; ++i) {
                                     float first = 0, second = 0;
                                     for (int u = 0; u < num_rows; ++u) {
                                       const float g = loaded.g(u, i);
                                       first += g;
                                       second += g * (to_float(loaded.x[u].values[i]) - line.mean.values[i]);
                                     }
                                     total.first[i] += first;
                                     total.second[i] += second;
                                   }
                                 });
  const auto width = static_cast<unsigned>(shape.group_channels());
  for (int i = 0; i < n; ++i) {
    total.second[i] *= operands.lines.rstd[sample * shape.groups + (static_cast<unsigned>(channel) + i) / width];
  }
  return total;
}

/// What is taken off weight · rstd · g in a group: a constant, and (x − mean) · a factor. From Σ(w·g) and Σ(w·g·x̂).
__device__ __forceinline__ SumPair taken_off(double sum, double product, double rstd, double count) {
  return {static_cast<float>(rstd * sum / count), static_cast<float>(rstd * rstd * product / count)};
}

/// dx for n channels of rows of one sample; `of_group(group)` is what taken_off gave.
template <int n, typename T, typename OfGroup>
__device__ __forceinline__ void combine_grouped_rows(const GroupGradientOperands<T>& operands,
                                                     const GroupNormShape& shape, std::int64_t sample,
                                                     std::int64_t channel, std::int64_t begin, std::int64_t end,
                                                     OfGroup&& of_group) {
  const auto line = operands.lines.template of<n>(shape, sample, channel);
  const auto width = static_cast<unsigned>(shape.group_channels());
  Pack<float, n> constant, factor;
  for (int i = 0; i < n; ++i) {
    const SumPair pair = of_group((static_cast<unsigned>(channel) + i) / width);
    constant.values[i] = pair.values[0];
    factor.values[i] = pair.values[1];
  }
  visit_rows<group_rows_at_once>(
      begin, end, channel, shape.channels, [&](std::int64_t at, std::int64_t step, auto rows) {
        constexpr int num_rows = decltype(rows)::value;
        const LoadedGroupRows<T, n, num_rows> loaded(operands, line, at, step);
        for (int u = 0; u < num_rows; ++u) {
          Pack<float, n> dx;
          for (int i = 0; i < n; ++i) {
            const float centred = to_float(loaded.x[u].values[i]) - line.mean.values[i];
            dx.values[i] = line.slope.values[i] * loaded.g(u, i) - constant.values[i] - centred * factor.values[i];
          }
          store_floats(operands.dx + at + u * step, dx);
        }
      });
}

/// A block has its channels of some samples, one after the other, and adds up their gradients of weights. The sums go
/// to `pairs` (parts, channels), or where there is one part to dweight and dbias; all null: not wanted.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    groupnorm_backward_at_once_kernel(GroupGradientOperands<T> operands, SumPair* pairs, float* dweight, float* dbias,
                                      RowParts parts, GroupNormShape shape, GroupBlocks blocks) {
  wait_for_earlier_kernels();
  // Of each channel Σg and Σ g·x̂; then, at the first channel of a group, what combine_grouped_rows takes off.
  TRAINER_SHARED(SumPair, sums_of_channel, groupnorm_most_channels);
  constexpr int most_own_channels = groupnorm_most_channels / tile_threads;
  const GroupBlockPosition block = group_block_position(blocks, shape.channels);
  const std::int64_t width = shape.group_channels();
  const double count = static_cast<double>(shape.rows) * static_cast<double>(width);
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  SumPair own[most_own_channels]{};
  const std::int64_t first_sample = block.part * parts.rows_per_part;
  const std::int64_t rest = shape.samples - first_sample;
  const std::int64_t end_sample = first_sample + (rest < parts.rows_per_part ? rest : parts.rows_per_part);
  for (std::int64_t sample = first_sample; sample < end_sample; ++sample) {
    const std::int64_t begin = sample * shape.rows, end = begin + shape.rows;
    for_packs_of_block<n>(block, [&](const TilePosition& at, std::int64_t place) {
      ColumnSums<n> sums{};
      if (at.active) sums = gradient_sums_of_rows<n>(operands, shape, sample, at.channel, begin, end);
      add_over_rows(sums);
      if (threadIdx.y != 0 || !at.active) return;
      for (int i = 0; i < n; ++i) sums_of_channel[place + i] = {sums.first[i], sums.second[i]};
    });
    __syncthreads();
    for (int k = 0; k < most_own_channels; ++k) {
      const unsigned place = thread + k * tile_threads;
      if (place >= block.num_channels) continue;
      own[k].values[0] += sums_of_channel[place].values[0];
      own[k].values[1] += sums_of_channel[place].values[1];
    }
    __syncthreads();
    for_groups_of_block(block, width, [&](std::int64_t first, unsigned lane) {
      double sum = 0, product = 0;
      for (std::int64_t c = first + lane; c < first + width; c += warp_size) {
        const double weight =
            operands.lines.weight != nullptr ? static_cast<double>(operands.lines.weight[block.first + c]) : 1;
        sum += weight * static_cast<double>(sums_of_channel[c].values[0]);
        product += weight * static_cast<double>(sums_of_channel[c].values[1]);
      }
      sum = warp_sum(sum);
      product = warp_sum(product);
      if (lane != 0) return;
      const std::int64_t group = sample * shape.groups + (block.first + first) / width;
      sums_of_channel[first] = taken_off(sum, product, static_cast<double>(operands.lines.rstd[group]), count);
    });
    __syncthreads();
    for_packs_of_block<n>(block, [&](const TilePosition& at, std::int64_t) {
      if (!at.active) return;
      combine_grouped_rows<n>(operands, shape, sample, at.channel, begin, end,
                              [&](unsigned group) { return sums_of_channel[group * width - block.first]; });
    });
    __syncthreads();  // the next sample's sums
  }
  if (pairs == nullptr && dweight == nullptr) return;
  for (int k = 0; k < most_own_channels; ++k) {
    const unsigned place = thread + k * tile_threads;
    if (place >= block.num_channels) continue;
    const std::int64_t channel = block.first + place;
    if (pairs != nullptr) {
      pairs[block.part * shape.channels + channel] = own[k];
    } else {
      dbias[channel] = own[k].values[0];
      dweight[channel] = own[k].values[1];
    }
  }
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, group_blocks_at_once)
    groupnorm_gradient_sums_kernel(GroupGradientOperands<T> operands, SumPair* pairs, RowParts parts,
                                   GroupNormShape shape, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, shape.channels);
  const auto num_parts = static_cast<unsigned>(parts.num_parts);
  const std::int64_t sample = static_cast<unsigned>(at.row_group) / num_parts;
  const std::int64_t begin = static_cast<unsigned>(at.row_group) % num_parts * parts.rows_per_part;
  const std::int64_t end = begin + parts.rows_per_part < shape.rows ? begin + parts.rows_per_part : shape.rows;
  const std::int64_t first_row = sample * shape.rows;
  ColumnSums<n> sums{};
  if (at.active)
    sums = gradient_sums_of_rows<n>(operands, shape, sample, at.channel, first_row + begin, first_row + end);
  add_over_rows(sums);
  if (threadIdx.y != 0 || !at.active) return;
  store_pairs(pairs + at.row_group * shape.channels + at.channel, sums.first, sums.second);
}

/// Threads along x share a group of a sample, those along y have groups of their own.
template <int group_threads>
__global__ void __launch_bounds__(tile_threads)
    groupnorm_settle_gradients_kernel(const SumPair* pairs, RowParts parts, const float* weight, const float* rstd,
                                      SumPair* settled, GroupNormShape shape) {
  wait_for_earlier_kernels();
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (index >= shape.samples * shape.groups) return;  // all threads of the group together
  const std::int64_t sample = index / shape.groups, width = shape.group_channels();
  const std::int64_t first = (index - sample * shape.groups) * width;
  const SumPair* const from = pairs + sample * parts.num_parts * shape.channels + first;
  const auto channels = static_cast<unsigned>(width);
  const unsigned num_pairs = static_cast<unsigned>(parts.num_parts) * channels;
  double sum = 0, product = 0;
  for (unsigned i = threadIdx.x; i < num_pairs; i += group_threads) {
    const unsigned part = i / channels, channel = i % channels;
    const SumPair pair = from[part * shape.channels + channel];
    const double scale = weight != nullptr ? static_cast<double>(weight[first + channel]) : 1;
    sum += scale * static_cast<double>(pair.values[0]);
    product += scale * static_cast<double>(pair.values[1]);
  }
  if constexpr (group_threads == warp_size) {
    sum = warp_sum(sum);
    product = warp_sum(product);
  } else {
    sum = block_sum<group_threads>(sum);
    product = block_sum<group_threads>(product);
  }
  if (threadIdx.x != 0) return;
  const double count = static_cast<double>(shape.rows) * static_cast<double>(width);
  settled[index] = taken_off(sum, product, static_cast<double>(rstd[index]), count);
}

__global__ void __launch_bounds__(combined_channels* combining_threads)
    groupnorm_weight_gradients_kernel(const SumPair* pairs, std::int64_t num_parts, float* dweight, float* dbias,
                                      std::int64_t channels) {
  wait_for_earlier_kernels();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  const DoubleSums sums = sum_of_parts(pairs, num_parts, channel, channels);
  if (threadIdx.y != 0 || channel >= channels) return;
  dbias[channel] = static_cast<float>(sums.first);
  dweight[channel] = static_cast<float>(sums.second);
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, group_blocks_at_once)
    groupnorm_combine_kernel(GroupGradientOperands<T> operands, const SumPair* settled, GroupNormShape shape,
                             PassOverSamples pass) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(pass.num_tiles, shape.channels);
  if (!at.active) return;
  for_samples_of_block<n>(shape, pass, at, [&](std::int64_t sample, std::int64_t begin, std::int64_t end) {
    const SumPair* const of_sample = settled + sample * shape.groups;
    combine_grouped_rows<n>(operands, shape, sample, at.channel, begin, end,
                            [&](unsigned group) { return of_sample[group]; });
  });
}

template <int group_threads>
void launch_settle(const SumPair* pairs, const RowParts& parts, const GroupNormBackward& operands, SumPair* settled,
                   const GroupNormShape& shape, Stream stream) {
  constexpr unsigned groups_of_block = tile_threads / group_threads;
  launch(groupnorm_settle_gradients_kernel<group_threads>,
         grid_of(num_blocks(shape.samples * shape.groups, groups_of_block)), Dim3{group_threads, groups_of_block},
         stream, pairs, parts, operands.weight, operands.rstd, settled, shape);
}

void launch_weight_gradients(const SumPair* pairs, std::int64_t num_parts, const GroupNormBackward& operands,
                             const GroupNormShape& shape, Stream stream) {
  launch(groupnorm_weight_gradients_kernel, combining_grid(shape.channels), combining_block(), stream, pairs, num_parts,
         operands.dweight, operands.dbias, shape.channels);
}

}  // namespace

void groupnorm_backward(DType type, const GroupNormBackward& operands, const GroupNormShape& shape, Stream stream) {
  if (shape.samples == 0 || shape.rows == 0 || shape.channels == 0) return;
  const bool wants_sums = operands.dweight != nullptr;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const GroupGradientOperands<T> typed = {.dy = static_cast<const T*>(operands.dy),
                                            .x = static_cast<const T*>(operands.x),
                                            .dx = static_cast<T*>(operands.dx),
                                            .lines = {operands.mean, operands.rstd, operands.weight, operands.bias},
                                            .relu = operands.relu};
    const auto run = [&](auto width) {
      constexpr int n = decltype(width)::value;
      SumPair* const pairs = static_cast<SumPair*>(operands.workspace);
      if (groupnorm_is_one_launch(shape)) {
        const GroupBlocks blocks = group_blocks(shape, n);
        const RowParts parts = groupnorm_sample_parts(shape);
        const bool has_parts = wants_sums && parts.num_parts > 1;
        launch(groupnorm_backward_at_once_kernel<T, n>, blocks.grid(parts.num_parts), blocks.block(), stream, typed,
               has_parts ? pairs : nullptr, operands.dweight, operands.dbias, parts, shape, blocks);
        if (has_parts) launch_weight_gradients(pairs, parts.num_parts, operands, shape, stream);
        return;
      }
      const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
      const RowParts parts = groupnorm_row_parts(shape);
      const std::int64_t num_parts = shape.samples * parts.num_parts;
      SumPair* const settled = pairs + num_parts * shape.channels;
      launch(groupnorm_gradient_sums_kernel<T, n>, tiles.grid(num_parts), tiles.block(), stream, typed, pairs, parts,
             shape, tiles.num_tiles);
      // A warp where a group's pairs are few.
      constexpr std::int64_t pairs_of_warp = 512;
      if (parts.num_parts * shape.group_channels() <= pairs_of_warp) {
        launch_settle<warp_size>(pairs, parts, operands, settled, shape, stream);
      } else {
        launch_settle<tile_threads>(pairs, parts, operands, settled, shape, stream);
      }
      if (wants_sums) launch_weight_gradients(pairs, num_parts, operands, shape, stream);
      const std::int64_t rows = shape.samples * shape.rows;
      const PassOverSamples pass = {tiles.rows_per_block(rows), tiles.num_tiles};
      launch(groupnorm_combine_kernel<T, n>, tiles.grid(num_blocks(rows, pass.rows_per_block)), tiles.block(), stream,
             typed, settled, shape, pass);
    };
    with_pack_width<T>(shape.channels,
                       {operands.dy, operands.x, operands.dx, operands.weight, operands.bias, operands.workspace}, run);
  });
}

}  // namespace trainer::cuda
