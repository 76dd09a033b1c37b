#include "cuda/kernels/cross_entropy.h"

#include <numeric>

#include "cuda/kernels/lane_group.cuh"
#include "cuda/kernels/loss_parts.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

template <typename T>
struct CrossEntropyTask {
  const T* logits;
  const std::int32_t* targets;
  T* gradients;          ///< may be the logits
  const float* weights;  ///< on the device; null: 1 each
  const StepScalars* scalars;
  LossSink sink;  ///< statistics null: not wanted
  std::int64_t samples, classes, rows_per_part;
  double smoothing, weight_sum;
  std::int32_t ignored;       ///< a target without loss and gradient
  const MixedSample* mixing;  ///< null: each sample has its own target alone
};

/// A class that a row of logits is to give; none where it is ignored, or none of the model's.
struct Wanted {
  std::int64_t target = -1;
  bool is_class = false;
  float reached = not_a_number;  ///< the logit
  double share = 0, weight = 0;
};

/// What a row of logits is to give.
struct RowTarget {
  Wanted own, other;     ///< the other one of mixed samples alone
  bool is_lost = false;  ///< a target is no class and not ignored

  __device__ double share() const { return own.share + other.share; }
  __device__ const Wanted& greater() const { return own.share >= other.share ? own : other; }
};

/// All threads of a block.
struct WholeBlock {
  static constexpr int lanes = cross_entropy_threads;

  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  template <typename V>
  __device__ V sum(V value) const {
    return block_sum<cross_entropy_threads>(value);
  }
  __device__ float max(float value) const { return block_max<cross_entropy_threads>(value); }
};

/// Calls visit(values, at) for a thread's share of a row, n classes at a time: values[i] is the logit of class at(i),
/// −∞ beyond the last. `packed`: n that lie together; else a team's width apart.
template <int n, bool packed, typename T, typename Team, typename Visit>
__device__ __forceinline__ void for_each_share(const T* row, std::int64_t classes, const Team& team, Visit&& visit) {
  for (std::int64_t first = team.lane() * (packed ? n : 1); first < classes; first += n * team.lanes) {
    const auto at = [&](int i) { return first + i * (packed ? 1 : team.lanes); };
    Pack<float, n> logits;
    if constexpr (packed) {
      logits = load_floats<n>(row + first);
    } else {
      for (int i = 0; i < n; ++i) logits.values[i] = at(i) < classes ? to_float(row[at(i)]) : -infinity;
    }
    visit(logits.values, at);
  }
}

// Where both are −∞ the factor is that of equal numbers, not NaN.
__device__ __forceinline__ float exp_below(float value, float level) {
  return value == level ? 1.0f : expf(value - level);
}

/// What a pass over a row's logits finds; all of a team's threads hold the same.
struct RowSummary {
  float shift, sum;  ///< the largest logit and Σ exp(logit − shift); NaN where one is NaN or +∞, or all are −∞
  int rank;          ///< classes before the target's, as the CPU's classes_before
  double weighted_sum;  ///< Σ weight · logit, for smoothing
};

template <int n, bool packed, typename T, typename Team>
__device__ __forceinline__ RowSummary summarize_row(const CrossEntropyTask<T>& task, const Team& team, const T* row,
                                                    std::int64_t classes, std::int64_t target, float reached) {
  RowSummary found{-infinity, 0.0f, 0, 0.0};
  for_each_share<n, packed>(row, classes, team, [&](const float(&logits)[n], const auto& at) {
    float largest = found.shift;
    for (int i = 0; i < n; ++i) largest = fmaxf(largest, logits[i]);  // passes over NaN, which the sum keeps
    float sum = found.sum * exp_below(found.shift, largest);
    for (int i = 0; i < n; ++i) sum += exp_below(logits[i], largest);
    found.shift = largest;
    found.sum = sum;
    if (task.sink.statistics == nullptr) return;
    for (int i = 0; i < n; ++i) {
      if (at(i) >= classes) continue;
      const bool behind = logits[i] < reached || (logits[i] == reached && at(i) >= target);
      found.rank += behind ? 0 : 1;
    }
    if (task.smoothing == 0) return;
    for (int i = 0; i < n; ++i) {
      if (at(i) >= classes) continue;
      const double weight = task.weights == nullptr ? 1.0 : static_cast<double>(task.weights[at(i)]);
      found.weighted_sum += weight * static_cast<double>(logits[i]);
    }
  });
  const float shift = team.max(found.shift);
  found.sum = team.sum(found.sum * exp_below(found.shift, shift));
  found.shift = shift;
  if (fabsf(shift) == infinity) found.sum = not_a_number;
  if (task.sink.statistics == nullptr) return found;
  found.rank = team.sum(found.rank);
  if (task.smoothing > 0) found.weighted_sum = team.sum(found.weighted_sum);
  return found;
}

template <typename T>
__device__ __forceinline__ Wanted wanted_class(const CrossEntropyTask<T>& task, const T* row, std::int64_t classes,
                                               std::int64_t target, double share) {
  Wanted wanted{target};
  if (target == task.ignored) return wanted;
  wanted.share = share;
  wanted.is_class = target >= 0 && target < classes;
  if (!wanted.is_class) return wanted;
  wanted.reached = to_float(row[target]);
  wanted.weight = task.weights == nullptr ? 1.0 : static_cast<double>(task.weights[target]);
  return wanted;
}

template <typename T>
__device__ __forceinline__ RowTarget target_of_row(const CrossEntropyTask<T>& task, const T* row, std::int64_t classes,
                                                   std::int64_t sample) {
  RowTarget target;
  if (task.mixing == nullptr) {
    target.own = wanted_class(task, row, classes, task.targets[sample], 1.0);
  } else {
    const double share = static_cast<double>(task.mixing[sample].share);
    target.own = wanted_class(task, row, classes, task.targets[sample], share);
    target.other = wanted_class(task, row, classes, task.mixing[sample].partner_class, 1 - share);
  }
  target.is_lost = (target.own.share > 0 && !target.own.is_class) || (target.other.share > 0 && !target.other.is_class);
  return target;
}

/// The loss of a sample, as PyTorch's: with smoothing s, K classes and weights w, of class t,
/// (1 − s)·w_t·(−log p_t) + s/K · Σ_j w_j·(−log p_j); of two classes the sum of both, by their shares.
template <typename T>
__device__ __forceinline__ void add_sample(const CrossEntropyTask<T>& task, const RowSummary& row,
                                           const RowTarget& target, LossPart& part) {
  const double log_sum = static_cast<double>(row.shift) + log(static_cast<double>(row.sum));
  const Wanted &own = target.own, &other = target.other;
  double value = own.share > 0 ? own.share * own.weight * (log_sum - static_cast<double>(own.reached)) : 0.0;
  if (other.share > 0) value += other.share * other.weight * (log_sum - static_cast<double>(other.reached));
  if (task.smoothing > 0) {
    const double of_each = target.share() * task.smoothing / static_cast<double>(task.classes);
    value = (1 - task.smoothing) * value + of_each * (task.weight_sum * log_sum - row.weighted_sum);
  }
  part.statistics[loss_sum] += value;
  part.statistics[loss_weight] += task.mixing == nullptr ? own.weight : 1.0;
  part.statistics[num_correct] += row.rank < 1 ? 1 : 0;
  part.statistics[num_correct_top5] += row.rank < 5 ? 1 : 0;
  part.statistics[num_counted] += 1;
}

template <int n, bool packed, typename T, typename Team>
__device__ __forceinline__ void write_gradients(const CrossEntropyTask<T>& task, const Team& team, const T* row,
                                                T* gradients, std::int64_t classes, const RowSummary& summary,
                                                const RowTarget& target) {
  const double scale = static_cast<double>(gradient_scale_of(*task.scalars, task.sink.term));
  const double of_own = target.own.share * (1 - task.smoothing) * target.own.weight;
  const double of_other = target.other.share * (1 - task.smoothing) * target.other.weight;
  const double of_targets = target.is_lost ? static_cast<double>(not_a_number) : of_own + of_other;
  const double of_each = target.share() * task.smoothing / static_cast<double>(task.classes);
  const float share =
      static_cast<float>(scale * (of_targets + of_each * task.weight_sum) / static_cast<double>(summary.sum));
  const float smoothing = static_cast<float>(scale * of_each);
  const float hit = static_cast<float>(scale * of_own), other_hit = static_cast<float>(scale * of_other);
  for_each_share<n, packed>(row, classes, team, [&](const float(&logits)[n], const auto& at) {
    Pack<float, n> result;
    for (int i = 0; i < n; ++i) {
      result.values[i] = expf(logits[i] - summary.shift) * share;
      if (task.smoothing > 0 && at(i) < classes) {
        result.values[i] -= smoothing * (task.weights == nullptr ? 1.0f : task.weights[at(i)]);
      }
      if (at(i) == target.own.target) result.values[i] -= hit;
      if (at(i) == target.other.target) result.values[i] -= other_hit;
    }
    if constexpr (packed) {
      store_floats(gradients + at(0), result);
    } else {
      for (int i = 0; i < n; ++i) {
        if (at(i) < classes) gradients[at(i)] = from_float<T>(result.values[i]);
      }
    }
  });
}

template <typename T, typename Team>
__device__ __forceinline__ void clear_gradients(const Team& team, T* gradients, std::int64_t classes) {
  for (std::int64_t first = team.lane(); first < classes; first += team.lanes) gradients[first] = from_float<T>(0.0f);
}

/// The block's part of the batch, `rows_at_once` rows at a time, each by a team.
template <int n, bool packed, typename T, typename Team>
__device__ __forceinline__ void process_part(const CrossEntropyTask<T>& task, const Team& team) {
  const int rows_at_once = cross_entropy_threads / team.lanes;
  const std::int64_t begin = std::int64_t{blockIdx.x} * task.rows_per_part;
  const std::int64_t end = begin + task.rows_per_part < task.samples ? begin + task.rows_per_part : task.samples;
  LossPart part{};
  for (std::int64_t first = begin; first < end; first += rows_at_once) {
    // A team without a row goes along with no classes: the others of its warp wait for it.
    const std::int64_t sample = first + static_cast<int>(threadIdx.x) / team.lanes;
    const bool has_row = sample < end;
    const std::int64_t classes = has_row ? task.classes : 0;
    const std::int64_t offset = has_row ? sample * task.classes : 0;
    const T* const row = task.logits + offset;
    const RowTarget target = has_row ? target_of_row(task, row, classes, sample) : RowTarget{};
    const bool is_ignored = has_row && target.share() == 0;
    const RowSummary summary =
        summarize_row<n, packed>(task, team, row, classes, target.greater().target, target.greater().reached);
    if (has_row && !is_ignored && team.lane() == 0 && task.sink.statistics != nullptr)
      add_sample(task, summary, target, part);
    if (task.gradients != nullptr && is_ignored) {
      clear_gradients(team, task.gradients + offset, classes);
    } else if (task.gradients != nullptr) {
      write_gradients<n, packed>(task, team, row, task.gradients + offset, classes, summary, target);
    }
  }
  if (task.sink.statistics != nullptr) put_loss_part<cross_entropy_threads>(task.sink, part);
}

template <typename T>
__global__ void __launch_bounds__(cross_entropy_threads)
    cross_entropy_by_lanes_kernel(CrossEntropyTask<T> task, int lanes) {
  wait_for_earlier_kernels();
  process_part<4, false>(task, LaneGroup{lanes});
}

template <int n, bool packed, typename T>
__global__ void __launch_bounds__(cross_entropy_threads) cross_entropy_by_blocks_kernel(CrossEntropyTask<T> task) {
  wait_for_earlier_kernels();
  process_part<n, packed>(task, WholeBlock{});
}

/// As many weights as the 4 KiB of a launch's arguments hold.
struct WeightChunk {
  float weights[960];
};
constexpr std::int64_t chunk_size = sizeof(WeightChunk) / sizeof(float);

__global__ void __launch_bounds__(chunk_size) store_class_weights_kernel(WeightChunk chunk, float* weights, int count) {
  wait_for_earlier_kernels();
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) weights[i] = chunk.weights[i];
}

void store_class_weights(std::span<const float> from, float* to, Stream stream) {
  for (std::size_t begin = 0; begin < from.size(); begin += chunk_size) {
    const std::size_t count = std::min<std::size_t>(chunk_size, from.size() - begin);
    WeightChunk chunk{};
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(begin), count, chunk.weights);
    launch(store_class_weights_kernel, {1}, {static_cast<unsigned>(chunk_size)}, stream, chunk, to + begin,
           static_cast<int>(count));
  }
}

template <typename T>
void launch_by_blocks(const CrossEntropyTask<T>& task, Dim3 grid, Stream stream) {
  with_pack_width<T>(task.classes, {task.logits, task.gradients}, [&](auto width) {
    if constexpr (constexpr int n = decltype(width)::value; n > 1) {
      launch(cross_entropy_by_blocks_kernel<n, true, T>, grid, {cross_entropy_threads}, stream, task);
    } else {
      launch(cross_entropy_by_blocks_kernel<4, false, T>, grid, {cross_entropy_threads}, stream, task);
    }
  });
}

}  // namespace

void cross_entropy(DType type, const CrossEntropyOperands& operands, const CrossEntropyShape& shape,
                   const CrossEntropyOptions& options, Stream stream) {
  const CrossEntropyTeams teams = cross_entropy_teams(shape);
  const bool has_parts = operands.statistics != nullptr && teams.num_parts > 1;
  const LossSink sink{static_cast<LossPart*>(operands.workspace), operands.statistics, operands.term};
  const std::span<const float> weights = options.class_weights;
  float* device_weights = nullptr;
  if (!weights.empty()) {
    device_weights = reinterpret_cast<float*>(sink.parts + (has_parts ? teams.num_parts : 0));
    store_class_weights(weights, device_weights, stream);
  }
  const double weight_sum =
      weights.empty() ? static_cast<double>(shape.classes) : std::accumulate(weights.begin(), weights.end(), 0.0);
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const CrossEntropyTask<T> task = {
        static_cast<const T*>(operands.logits),
        operands.targets,
        static_cast<T*>(operands.gradients),
        device_weights,
        operands.scalars,
        sink,
        shape.samples,
        shape.classes,
        teams.rows_per_part,
        options.label_smoothing,
        weight_sum,
        options.ignore_index,
        operands.mixing,
    };
    const Dim3 grid{static_cast<unsigned>(teams.num_parts)};
    if (teams.lanes == cross_entropy_threads) {
      launch_by_blocks(task, grid, stream);
    } else {
      launch(cross_entropy_by_lanes_kernel<T>, grid, {cross_entropy_threads}, stream, task, teams.lanes);
    }
  });
  if (has_parts) finish_loss(sink, teams.num_parts, stream);
}

}  // namespace trainer::cuda
