#include "cuda/kernels/confusion_matrix.h"

#include "cuda/kernels/grid.h"
#include "cuda/kernels/lane_group.cuh"

namespace trainer::cuda {

namespace {

constexpr int counting_threads = 256, rows_of_thread = 16;
/// Up to so many classes a block counts for itself first.
constexpr std::int64_t most_shared_classes = 32;

/// The class of the largest logit, of equal ones the first; all of a team's threads get it.
__device__ __forceinline__ std::int64_t guess_of(const LaneGroup& team, const float* row, std::int64_t channels) {
  float best = below_all;
  std::int64_t at = team.lane();
  for (std::int64_t c = team.lane(); c < channels; c += team.lanes) {
    if (row[c] > best) {
      best = row[c];
      at = c;
    }
  }
  for (int mask = team.lanes / 2; mask > 0; mask /= 2) {
    const float other = shuffle_xor(best, mask);
    const std::int64_t other_at = shuffle_xor(at, mask);
    if (other > best || (other == best && other_at < at)) {
      best = other;
      at = other_at;
    }
  }
  return at;
}

/// Rows, each by a team of lanes; where there are no classes or one logit, a row is a logit and a team a thread.
__global__ void __launch_bounds__(counting_threads) confusion_matrix_kernel(ConfusionTask task, int lanes) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(std::int32_t, of_block, most_shared_classes * most_shared_classes);
  const bool is_shared = task.num_classes <= most_shared_classes;
  const std::int64_t num_counts = task.num_classes * task.num_classes;
  if (is_shared) {
    for (std::int64_t i = threadIdx.x; i < num_counts; i += counting_threads) of_block[i] = 0;
    __syncthreads();
  }
  const LaneGroup team{lanes};
  const int rows_at_once = counting_threads / lanes;
  const std::int64_t begin = std::int64_t{blockIdx.x} * rows_at_once * rows_of_thread;
  for (int turn = 0; turn < rows_of_thread; ++turn) {
    const std::int64_t row = begin + turn * rows_at_once + static_cast<int>(threadIdx.x) / lanes;
    const bool has_row = row < task.rows;
    std::int64_t truth = -1, guess = 0;
    if (!task.has_classes) {
      if (has_row) truth = static_cast<const float*>(task.targets)[row] > 0.5f ? 1 : 0;
    } else if (has_row) {
      const std::int32_t target = static_cast<const std::int32_t*>(task.targets)[row];
      if (target != task.ignored && target >= 0 && target < task.num_classes) truth = target;
    }
    if (task.channels == 1) {
      if (has_row) guess = task.logits[row] > 0 ? 1 : 0;
    } else {  // a team without a row goes along: the others of its warp wait for it
      guess = guess_of(team, task.logits + (has_row ? row * task.channels : 0), has_row ? task.channels : 0);
    }
    if (truth < 0 || team.lane() != 0) continue;
    const std::int64_t at = truth * task.num_classes + guess;
    if (is_shared) {
      atomic_add(&of_block[at], 1);
    } else {
      atomic_add(&task.counts[at], 1);
    }
  }
  if (!is_shared) return;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < num_counts; i += counting_threads)
    if (of_block[i] > 0) atomic_add(&task.counts[i], of_block[i]);
}

}  // namespace

void confusion_matrix(const ConfusionTask& task, Stream stream) {
  ConfusionTask by_rows = task;
  if (!task.has_classes) {
    by_rows.rows = task.rows * task.channels;
    by_rows.channels = 1;
  }
  const int lanes = lanes_for(by_rows.channels);
  launch(confusion_matrix_kernel,
         grid_of(num_blocks(by_rows.rows, std::int64_t{counting_threads / lanes} * rows_of_thread)), {counting_threads},
         stream, by_rows, lanes);
}

}  // namespace trainer::cuda
