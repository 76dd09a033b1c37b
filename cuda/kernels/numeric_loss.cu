#include "cuda/kernels/numeric_loss.h"

#include "cuda/kernels/elementwise.cuh"
#include "cuda/kernels/loss_parts.cuh"
#include "engine/ops/error_statistics.h"

namespace trainer::cuda {

namespace {

constexpr int loss_threads = 256;

struct SquaredError {
  __device__ void add(float prediction, float target, LossPart& part) const {
    const double difference = static_cast<double>(prediction - target);
    part.statistics[loss_sum] += difference * difference;
  }
  __device__ static void add_count(double count, LossPart& part) { part.statistics[loss_weight] = count; }
};

/// |d| − beta / 2, or d² · curvature / 2 for |d| below beta; curvature is 1 / beta, and 0 where beta is.
struct SmoothL1 {
  float beta, curvature;

  __device__ void add(float prediction, float target, LossPart& part) const {
    const float difference = fabsf(prediction - target);
    const double wide = static_cast<double>(difference);
    part.statistics[loss_sum] +=
        difference < beta ? wide * wide * (static_cast<double>(curvature) / 2) : wide - static_cast<double>(beta) / 2;
  }
  __device__ static void add_count(double count, LossPart& part) { part.statistics[loss_weight] = count; }
};

struct BinaryCrossEntropy {
  // max(x, 0) − x·t + log(1 + e^−|x|), which overflows nowhere.
  __device__ void add(float logit, float target, LossPart& part) const {
    const bool is_right = target > 0.5f ? logit > 0 : logit <= 0;
    const float value = (logit < 0 ? 0.0f : logit) - logit * target + log1pf(expf(-fabsf(logit)));
    part.statistics[loss_sum] += static_cast<double>(value);
    part.statistics[num_correct] += is_right ? 1 : 0;
  }
  __device__ static void add_count(double count, LossPart& part) {
    part.statistics[loss_weight] = count;
    part.statistics[num_counted] = count;
  }
};

/// No loss, but as many sums: engine/ops/error_statistics.h.
struct ErrorSums {
  __device__ void add(float prediction, float target, LossPart& part) const {
    const double wide = static_cast<double>(target);
    const double error = static_cast<double>(prediction) - wide;
    part.statistics[absolute_error_sum] += fabs(error);
    part.statistics[squared_error_sum] += error * error;
    part.statistics[target_sum] += wide;
    part.statistics[squared_target_sum] += wide * wide;
  }
  __device__ static void add_count(double count, LossPart& part) { part.statistics[num_error_numbers] = count; }
};
static_assert(static_cast<int>(num_error_statistics) == static_cast<int>(num_loss_statistics));

/// The loss of part blockIdx.x, n numbers at a time.
template <typename Loss, int n, typename T>
__global__ void __launch_bounds__(loss_threads)
    numeric_loss_kernel(Loss loss, const T* __restrict__ prediction, const T* __restrict__ targets, LossSink sink,
                        std::int64_t count, std::int64_t part_elements) {
  wait_for_earlier_kernels();
  const std::int64_t begin = std::int64_t{blockIdx.x} * part_elements;
  const std::int64_t end = begin + part_elements < count ? begin + part_elements : count;
  LossPart part{};
  for (std::int64_t first = begin + std::int64_t{threadIdx.x} * n; first < end; first += loss_threads * n) {
    if (first + n <= end) {
      const Pack<float, n> x = load_floats<n>(prediction + first);
      const Pack<float, n> t = load_floats<n>(targets + first);
      for (int i = 0; i < n; ++i) loss.add(x.values[i], t.values[i], part);
    } else {
      for (std::int64_t i = first; i < end; ++i) loss.add(to_float(prediction[i]), to_float(targets[i]), part);
    }
  }
  if (threadIdx.x == 0 && begin < end) Loss::add_count(static_cast<double>(end - begin), part);
  put_loss_part<loss_threads>(sink, part);
}

template <typename Loss>
void numeric_loss(DType type, const Loss& loss, const NumericLossOperands& operands, std::int64_t count,
                  Stream stream) {
  const NumericLossParts parts = numeric_loss_parts(count);
  const LossSink sink{static_cast<LossPart*>(operands.workspace), operands.statistics, operands.term};
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    // A part begins at a whole pack, and its last pack may be a part of one: only the addresses decide.
    with_pack_width<T>(0, {operands.prediction, operands.targets}, [&](auto width) {
      launch(numeric_loss_kernel<Loss, decltype(width)::value, T>, {static_cast<unsigned>(parts.num_parts)},
             {loss_threads}, stream, loss, static_cast<const T*>(operands.prediction),
             static_cast<const T*>(operands.targets), sink, count, parts.part_elements);
    });
  });
  finish_loss(sink, parts.num_parts, stream);
}

struct SquaredErrorGradient {
  const StepScalars* scalars;
  int term;
  __device__ float operator()(float prediction, float target) const {
    return 2 * gradient_scale_of(*scalars, term) * (prediction - target);
  }
};

struct SmoothL1Gradient {
  const StepScalars* scalars;
  int term;
  float beta, curvature;
  __device__ float operator()(float prediction, float target) const {
    const float scale = gradient_scale_of(*scalars, term);
    const float difference = prediction - target;
    if (fabsf(difference) < beta) return scale * curvature * difference;
    // A difference that is not a number is above nothing, and stays one.
    return difference > 0 ? scale : difference < 0 ? -scale : difference * scale;
  }
};

struct BinaryCrossEntropyGradient {
  const StepScalars* scalars;
  int term;
  __device__ float operator()(float logit, float target) const {
    return gradient_scale_of(*scalars, term) * (1 / (1 + expf(-logit)) - target);
  }
};

template <typename Gradient>
void numeric_loss_gradient(DType type, const Gradient& gradient, const NumericLossGradientOperands& operands,
                           std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    launch_elementwise<typename decltype(element)::type>(gradient, count, stream, operands.gradients,
                                                         operands.prediction, operands.targets);
  });
}

float curvature_of(double beta) { return beta > 0 ? static_cast<float>(1 / beta) : 0.0f; }

}  // namespace

void mse_forward(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
  numeric_loss(type, SquaredError{}, operands, count, stream);
}
void bce_with_logits_forward(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
  numeric_loss(type, BinaryCrossEntropy{}, operands, count, stream);
}
void error_statistics(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
  numeric_loss(type, ErrorSums{}, operands, count, stream);
}
void mse_backward(DType type, const NumericLossGradientOperands& operands, std::int64_t count, Stream stream) {
  numeric_loss_gradient(type, SquaredErrorGradient{operands.scalars, operands.term}, operands, count, stream);
}
void bce_with_logits_backward(DType type, const NumericLossGradientOperands& operands, std::int64_t count,
                              Stream stream) {
  numeric_loss_gradient(type, BinaryCrossEntropyGradient{operands.scalars, operands.term}, operands, count, stream);
}
void smooth_l1_forward(DType type, double beta, const NumericLossOperands& operands, std::int64_t count,
                       Stream stream) {
  numeric_loss(type, SmoothL1{static_cast<float>(beta), curvature_of(beta)}, operands, count, stream);
}
void smooth_l1_backward(DType type, double beta, const NumericLossGradientOperands& operands, std::int64_t count,
                        Stream stream) {
  numeric_loss_gradient(type,
                        SmoothL1Gradient{operands.scalars, operands.term, static_cast<float>(beta), curvature_of(beta)},
                        operands, count, stream);
}

}  // namespace trainer::cuda
