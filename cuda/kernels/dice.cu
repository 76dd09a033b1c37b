#include "cuda/kernels/dice.h"

#include "cuda/kernels/grid.h"
#include "cuda/kernels/lane_group.cuh"
#include "cuda/kernels/loss_parts.cuh"
#include "engine/ops/dice.h"

namespace trainer::cuda {

namespace {

static_assert(num_dice_sums == 3);

/// exp(logit − shift) · factor is a row's softmax.
struct RowScale {
  float shift, factor;
};

__device__ __forceinline__ bool is_ignored(const DiceTask& task, std::int64_t row) {
  return task.has_classes && static_cast<const std::int32_t*>(task.targets)[row] == task.ignored;
}

/// The truth of a channel. A target that is no class is the truth of none.
__device__ __forceinline__ float truth_at(const DiceTask& task, std::int64_t row, std::int64_t channel) {
  if (!task.has_classes) return static_cast<const float*>(task.targets)[row * task.channels + channel];
  const std::int64_t target = static_cast<const std::int32_t*>(task.targets)[row];
  return target == (task.channels == 1 ? 1 : channel) ? 1.0f : 0.0f;
}

/// What a team finds of its row; a team without one comes with no channels.
__device__ __forceinline__ RowScale scale_of_row(const LaneGroup& team, const float* row, std::int64_t channels) {
  float largest = below_all;
  for (std::int64_t c = team.lane(); c < channels; c += team.lanes) largest = fmaxf(largest, row[c]);
  largest = team.max(largest);
  float sum = 0;
  for (std::int64_t c = team.lane(); c < channels; c += team.lanes) sum += expf(row[c] - largest);
  return {largest, 1 / team.sum(sum)};
}

__global__ void __launch_bounds__(dice_threads) dice_rows_kernel(DiceTask task, int lanes, RowScale* scales) {
  wait_for_earlier_kernels();
  const LaneGroup team{lanes};
  const std::int64_t row = std::int64_t{blockIdx.x} * (dice_threads / lanes) + static_cast<int>(threadIdx.x) / lanes;
  const bool has_row = row < task.rows;
  const RowScale scale =
      scale_of_row(team, task.logits + (has_row ? row * task.channels : 0), has_row ? task.channels : 0);
  if (has_row && team.lane() == 0) scales[row] = scale;
}

/// The sums of the rows of part blockIdx.x for the classes of tile blockIdx.y.
__global__ void __launch_bounds__(dice_threads)
    dice_sums_kernel(DiceTask task, DiceParts parts, const RowScale* __restrict__ scales, double* part_sums) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(double, of_thread, dice_threads);
  const int lane = static_cast<int>(threadIdx.x) % parts.class_lanes;
  const int row_lanes = dice_threads / parts.class_lanes;
  const std::int64_t channel = std::int64_t{blockIdx.y} * parts.class_lanes + lane;
  const std::int64_t begin = std::int64_t{blockIdx.x} * parts.rows_per_part;
  const std::int64_t end = begin + parts.rows_per_part < task.rows ? begin + parts.rows_per_part : task.rows;
  double sums[3] = {0, 0, 0};
  if (channel < task.channels) {
    for (std::int64_t row = begin + static_cast<int>(threadIdx.x) / parts.class_lanes; row < end; row += row_lanes) {
      if (is_ignored(task, row)) continue;
      const float logit = task.logits[row * task.channels + channel];
      const float p = task.is_softmax ? expf(logit - scales[row].shift) * scales[row].factor : 1 / (1 + expf(-logit));
      const double wide = static_cast<double>(p), truth = static_cast<double>(truth_at(task, row, channel));
      sums[0] += wide * truth;
      sums[1] += wide;
      sums[2] += truth;
    }
  }
  for (int k = 0; k < 3; ++k) {
    of_thread[threadIdx.x] = sums[k];
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < parts.class_lanes && channel < task.channels) {
      double sum = 0;
      for (int i = 0; i < row_lanes; ++i) sum += of_thread[i * parts.class_lanes + lane];
      part_sums[(std::int64_t{blockIdx.x} * task.channels + channel) * 3 + k] = sum;
    }
    __syncthreads();  // the next turn writes of_thread
  }
}

__global__ void __launch_bounds__(dice_threads)
    add_dice_parts_kernel(const double* __restrict__ part_sums, std::int64_t num_parts, std::int64_t num_sums,
                          double* sums) {
  wait_for_earlier_kernels();
  const std::int64_t i = std::int64_t{blockIdx.x} * dice_threads + threadIdx.x;
  if (i >= num_sums) return;
  double sum = 0;
  for (std::int64_t part = 0; part < num_parts; ++part) sum += part_sums[part * num_sums + i];
  sums[i] = sum;
}

__global__ void __launch_bounds__(dice_threads)
    dice_loss_kernel(DiceTask task, const double* __restrict__ sums, double* statistics) {
  wait_for_earlier_kernels();
  double loss = 0;
  for (std::int64_t c = threadIdx.x; c < task.channels; c += dice_threads)
    loss += 1 - (2 * sums[3 * c] + task.smooth) / (sums[3 * c + 1] + sums[3 * c + 2] + task.smooth);
  loss = block_sum<dice_threads>(loss);
  if (threadIdx.x > 0) return;
  const double batch = static_cast<double>(task.batch);
  add_statistic(statistics, task.term, loss_sum, batch * loss / static_cast<double>(task.channels));
  add_statistic(statistics, task.term, loss_weight, batch);
}

/// The loss's slope for the probability of class c at a place of truth g is level[c] − reward[c] · g.
struct Slopes {
  float *level, *reward;
};

__global__ void __launch_bounds__(dice_threads)
    dice_slopes_kernel(DiceTask task, const double* __restrict__ sums, const StepScalars* scalars, Slopes slopes) {
  wait_for_earlier_kernels();
  const std::int64_t c = std::int64_t{blockIdx.x} * dice_threads + threadIdx.x;
  if (c >= task.channels) return;
  const double share = static_cast<double>(gradient_scale_of(*scalars, task.term)) * static_cast<double>(task.batch) /
                       static_cast<double>(task.channels);
  const double total = sums[3 * c + 1] + sums[3 * c + 2] + task.smooth;
  slopes.level[c] = static_cast<float>(share * (2 * sums[3 * c] + task.smooth) / (total * total));
  slopes.reward[c] = static_cast<float>(share * 2 / total);
}

__global__ void __launch_bounds__(dice_threads)
    dice_backward_kernel(DiceTask task, int lanes, Slopes slopes, float* gradients) {
  wait_for_earlier_kernels();
  const LaneGroup team{lanes};
  const std::int64_t row = std::int64_t{blockIdx.x} * (dice_threads / lanes) + static_cast<int>(threadIdx.x) / lanes;
  const bool has_row = row < task.rows;
  const std::int64_t channels = has_row ? task.channels : 0, offset = has_row ? row * task.channels : 0;
  const float* const logits = task.logits + offset;
  const auto slope_at = [&](std::int64_t c) { return slopes.level[c] - slopes.reward[c] * truth_at(task, row, c); };
  const bool is_left_out = has_row && is_ignored(task, row);
  RowScale scale{0, 0};
  double mean_slope = 0;  // of a softmax, by its probabilities
  if (task.is_softmax) {
    scale = scale_of_row(team, logits, channels);
    for (std::int64_t c = team.lane(); c < channels; c += team.lanes)
      mean_slope +=
          static_cast<double>(expf(logits[c] - scale.shift) * scale.factor) * static_cast<double>(slope_at(c));
    mean_slope = team.sum(mean_slope);
  }
  for (std::int64_t c = team.lane(); c < channels; c += team.lanes) {
    float gradient = 0;
    if (is_left_out) {
      gradient = 0;
    } else if (task.is_softmax) {
      gradient = expf(logits[c] - scale.shift) * scale.factor * (slope_at(c) - static_cast<float>(mean_slope));
    } else {
      const float p = 1 / (1 + expf(-logits[c]));
      gradient = slope_at(c) * (p * (1 - p));
    }
    gradients[offset + c] = gradient;
  }
}

Dim3 dice_grid(const DiceTask& task, int lanes) { return grid_of(num_blocks(task.rows, dice_threads / lanes)); }

}  // namespace

void dice_sums(const DiceTask& task, double* sums, void* workspace, Stream stream) {
  const DiceParts parts = dice_parts(task.rows, task.channels);
  auto* const part_sums = static_cast<double*>(workspace);
  auto* const scales = reinterpret_cast<RowScale*>(part_sums + parts.num_parts * task.channels * 3);
  if (task.is_softmax) {
    const int lanes = lanes_for(task.channels);
    launch(dice_rows_kernel, dice_grid(task, lanes), {dice_threads}, stream, task, lanes, scales);
  }
  const std::int64_t tiles = num_blocks(task.channels, parts.class_lanes);
  require_internal(tiles <= 0xFFFF, "dice has fewer than 2^21 classes");
  launch(dice_sums_kernel, {static_cast<unsigned>(parts.num_parts), static_cast<unsigned>(tiles)}, {dice_threads},
         stream, task, parts, static_cast<const RowScale*>(scales), part_sums);
  launch(add_dice_parts_kernel, grid_of(num_blocks(task.channels * 3, dice_threads)), {dice_threads}, stream,
         static_cast<const double*>(part_sums), parts.num_parts, task.channels * 3, sums);
}

void dice_loss(const DiceTask& task, const double* sums, double* statistics, Stream stream) {
  launch(dice_loss_kernel, {1}, {dice_threads}, stream, task, sums, statistics);
}

void dice_backward(const DiceTask& task, const double* sums, const StepScalars* scalars, float* gradients,
                   void* workspace, Stream stream) {
  auto* const numbers = static_cast<float*>(workspace);
  const Slopes slopes{numbers, numbers + task.channels};
  launch(dice_slopes_kernel, grid_of(num_blocks(task.channels, dice_threads)), {dice_threads}, stream, task, sums,
         scalars, slopes);
  const int lanes = lanes_for(task.channels);
  launch(dice_backward_kernel, dice_grid(task, lanes), {dice_threads}, stream, task, lanes, slopes, gradients);
}

}  // namespace trainer::cuda
