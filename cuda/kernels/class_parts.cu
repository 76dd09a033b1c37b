#include "cuda/kernels/class_parts.h"

#include "cuda/kernels/grid.h"
#include "cuda/kernels/lane_group.cuh"
#include "cuda/kernels/loss_parts.cuh"
#include "engine/ops/class_parts.h"

namespace trainer::cuda {
namespace {

/// What all ranks' statistics of a row come to.
struct WholeRow {
  float shift;
  double sum, target, of_all_logits;
};

__device__ __forceinline__ WholeRow whole_row(const ClassPartTask& task, const float* statistics, std::int64_t row) {
  const float* const of_row = statistics + row * task.ranks * num_class_statistics;
  WholeRow whole{below_all, 0, 0, 0};
  for (int rank = 0; rank < task.ranks; ++rank)
    whole.shift = fmaxf(whole.shift, of_row[rank * num_class_statistics + largest_logit]);
  for (int rank = 0; rank < task.ranks; ++rank) {
    const float* const of_rank = of_row + rank * num_class_statistics;
    whole.sum += static_cast<double>(of_rank[sum_below_largest]) *
                 exp(static_cast<double>(of_rank[largest_logit]) - static_cast<double>(whole.shift));
    whole.target += static_cast<double>(of_rank[logit_of_target]);
    whole.of_all_logits += static_cast<double>(of_rank[sum_of_logits]);
  }
  return whole;
}

__global__ void __launch_bounds__(class_part_threads) class_statistics_kernel(ClassPartTask task, float* statistics) {
  wait_for_earlier_kernels();
  const std::int64_t row = blockIdx.x;
  const float* const logits = task.logits + row * task.classes;
  float largest = below_all, all = 0;
  for (std::int64_t c = threadIdx.x; c < task.classes; c += class_part_threads) {
    largest = fmaxf(largest, logits[c]);  // passes over NaN, which the sum keeps
    all += logits[c];
  }
  largest = block_max<class_part_threads>(largest);
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < task.classes; c += class_part_threads) sum += expf(logits[c] - largest);
  sum = block_sum<class_part_threads>(sum);
  if (task.smoothing > 0) all = block_sum<class_part_threads>(all);
  float* const of_row = statistics + row * task.ranks * num_class_statistics;
  const int values = task.ranks * num_class_statistics;
  for (int i = static_cast<int>(threadIdx.x); i < values; i += class_part_threads) {
    if (i / num_class_statistics != task.place) of_row[i] = 0;
  }
  if (threadIdx.x > 0) return;
  const std::int64_t target = task.targets[row], place = target - task.first_class;
  const bool is_lost = target != task.ignored && (target < 0 || target >= task.all_classes);
  float* const own = of_row + task.place * num_class_statistics;
  own[largest_logit] = largest;
  own[sum_below_largest] = is_lost ? nanf("") : sum;
  own[logit_of_target] = place >= 0 && place < task.classes ? logits[place] : 0.0f;
  own[sum_of_logits] = task.smoothing > 0 ? all : 0.0f;
}

__global__ void __launch_bounds__(class_part_threads)
    class_order_kernel(ClassPartTask task, const float* __restrict__ statistics, float* order) {
  wait_for_earlier_kernels();
  const std::int64_t row = blockIdx.x;
  const float* const logits = task.logits + row * task.classes;
  const float reached = static_cast<float>(whole_row(task, statistics, row).target);
  const std::int64_t place = task.targets[row] - task.first_class;
  int before = 0;
  for (std::int64_t c = threadIdx.x; c < task.classes; c += class_part_threads) {
    const bool is_behind = logits[c] < reached || (logits[c] == reached && c >= place);
    before += is_behind ? 0 : 1;
  }
  before = block_sum<class_part_threads>(before);
  if (threadIdx.x == 0) order[row] = static_cast<float>(before);
}

__global__ void __launch_bounds__(class_part_threads)
    cross_entropy_of_parts_kernel(ClassPartTask task, const float* __restrict__ statistics,
                                  const float* __restrict__ order, LossSink sink) {
  wait_for_earlier_kernels();
  LossPart part{};
  const std::int64_t step = std::int64_t{gridDim.x} * class_part_threads;
  for (std::int64_t row = std::int64_t{blockIdx.x} * class_part_threads + threadIdx.x; row < task.rows; row += step) {
    if (task.targets[row] == task.ignored) continue;
    const WholeRow whole = whole_row(task, statistics, row);
    const double log_sum = static_cast<double>(whole.shift) + log(whole.sum);
    double value = log_sum - whole.target;
    if (task.smoothing > 0) {
      const double mean = whole.of_all_logits / static_cast<double>(task.all_classes);
      value = (1 - task.smoothing) * value + task.smoothing * (log_sum - mean);
    }
    part.statistics[loss_sum] += value;
    part.statistics[loss_weight] += 1;
    part.statistics[num_correct] += order[row] < 1 ? 1 : 0;
    part.statistics[num_correct_top5] += order[row] < 5 ? 1 : 0;
    part.statistics[num_counted] += 1;
  }
  put_loss_part<class_part_threads>(sink, part);
}

__global__ void __launch_bounds__(class_part_threads)
    cross_entropy_of_parts_backward_kernel(ClassPartTask task, const float* __restrict__ statistics,
                                           const StepScalars* scalars, float* gradients) {
  wait_for_earlier_kernels();
  const std::int64_t row = blockIdx.x;
  const float* const logits = task.logits + row * task.classes;
  const bool is_ignored = task.targets[row] == task.ignored;
  const std::int64_t place = task.targets[row] - task.first_class;
  const WholeRow whole = whole_row(task, statistics, row);
  const double scale = static_cast<double>(scalars->gradient_scale);
  const float share = static_cast<float>(scale / whole.sum);
  const float of_each = static_cast<float>(scale * task.smoothing / static_cast<double>(task.all_classes));
  const float hit = static_cast<float>(scale * (1 - task.smoothing));
  for (std::int64_t c = threadIdx.x; c < task.classes; c += class_part_threads) {
    const float gradient = expf(logits[c] - whole.shift) * share - of_each - (c == place ? hit : 0.0f);
    gradients[row * task.classes + c] = is_ignored ? 0.0f : gradient;
  }
}

}  // namespace

void class_statistics(const ClassPartTask& task, float* statistics, Stream stream) {
  launch(class_statistics_kernel, grid_of(task.rows), {class_part_threads}, stream, task, statistics);
}

void class_order(const ClassPartTask& task, const float* statistics, float* order, Stream stream) {
  launch(class_order_kernel, grid_of(task.rows), {class_part_threads}, stream, task, statistics, order);
}

void cross_entropy_of_parts(const ClassPartTask& task, const float* statistics, const float* order,
                            double* loss_statistics, void* workspace, Stream stream) {
  const std::int64_t blocks = class_part_blocks(task.rows);
  const LossSink sink{static_cast<LossPart*>(workspace), loss_statistics, 0};
  launch(cross_entropy_of_parts_kernel, grid_of(blocks), {class_part_threads}, stream, task, statistics, order, sink);
  finish_loss(sink, blocks, stream);
}

void cross_entropy_of_parts_backward(const ClassPartTask& task, const float* statistics, const StepScalars* scalars,
                                     float* gradients, Stream stream) {
  launch(cross_entropy_of_parts_backward_kernel, grid_of(task.rows), {class_part_threads}, stream, task, statistics,
         scalars, gradients);
}

}  // namespace trainer::cuda
