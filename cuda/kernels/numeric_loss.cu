#include "cuda/kernels/numeric_loss.h"

#include "cuda/kernels/elementwise.cuh"
#include "cuda/kernels/loss_parts.cuh"

namespace trainer::cuda {

namespace {

constexpr int loss_threads = 256;

struct SquaredError {
  __device__ static void add(float prediction, float target, LossPart& part) {
    const double difference = static_cast<double>(prediction - target);
    part.statistics[loss_sum] += difference * difference;
  }
  __device__ static void add_count(double count, LossPart& part) { part.statistics[loss_weight] = count; }
};

struct BinaryCrossEntropy {
  // max(x, 0) − x·t + log(1 + e^−|x|), which overflows nowhere.
  __device__ static void add(float logit, float target, LossPart& part) {
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

/// The loss of part blockIdx.x, n numbers at a time.
template <typename Loss, int n, typename T>
__global__ void __launch_bounds__(loss_threads)
    numeric_loss_kernel(const T* __restrict__ prediction, const T* __restrict__ targets, LossSink sink,
                        std::int64_t count, std::int64_t part_elements) {
  wait_for_earlier_kernels();
  const std::int64_t begin = std::int64_t{blockIdx.x} * part_elements;
  const std::int64_t end = begin + part_elements < count ? begin + part_elements : count;
  LossPart part{};
  for (std::int64_t first = begin + std::int64_t{threadIdx.x} * n; first < end; first += loss_threads * n) {
    if (first + n <= end) {
      const Pack<float, n> x = load_floats<n>(prediction + first);
      const Pack<float, n> t = load_floats<n>(targets + first);
      for (int i = 0; i < n; ++i) Loss::add(x.values[i], t.values[i], part);
    } else {
      for (std::int64_t i = first; i < end; ++i) Loss::add(to_float(prediction[i]), to_float(targets[i]), part);
    }
  }
  if (threadIdx.x == 0 && begin < end) Loss::add_count(static_cast<double>(end - begin), part);
  put_loss_part<loss_threads>(sink, part);
}

template <typename Loss>
void numeric_loss(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
  const NumericLossParts parts = numeric_loss_parts(count);
  const LossSink sink{static_cast<LossPart*>(operands.workspace), operands.statistics};
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    // A part begins at a whole pack, and its last pack may be a part of one: only the addresses decide.
    with_pack_width<T>(0, {operands.prediction, operands.targets}, [&](auto width) {
      launch(numeric_loss_kernel<Loss, decltype(width)::value, T>, {static_cast<unsigned>(parts.num_parts)},
             {loss_threads}, stream, static_cast<const T*>(operands.prediction),
             static_cast<const T*>(operands.targets), sink, count, parts.part_elements);
    });
  });
  finish_loss(sink, parts.num_parts, stream);
}

struct SquaredErrorGradient {
  const StepScalars* scalars;
  __device__ float operator()(float prediction, float target) const {
    return 2 * scalars->gradient_scale * (prediction - target);
  }
};

struct BinaryCrossEntropyGradient {
  const StepScalars* scalars;
  __device__ float operator()(float logit, float target) const {
    return scalars->gradient_scale * (1 / (1 + expf(-logit)) - target);
  }
};

template <typename Gradient>
void numeric_loss_gradient(DType type, const NumericLossGradientOperands& operands, std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    launch_elementwise<typename decltype(element)::type>(Gradient{operands.scalars}, count, stream, operands.gradients,
                                                         operands.prediction, operands.targets);
  });
}

}  // namespace

void mse_forward(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
  numeric_loss<SquaredError>(type, operands, count, stream);
}
void bce_with_logits_forward(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
  numeric_loss<BinaryCrossEntropy>(type, operands, count, stream);
}
void mse_backward(DType type, const NumericLossGradientOperands& operands, std::int64_t count, Stream stream) {
  numeric_loss_gradient<SquaredErrorGradient>(type, operands, count, stream);
}
void bce_with_logits_backward(DType type, const NumericLossGradientOperands& operands, std::int64_t count,
                              Stream stream) {
  numeric_loss_gradient<BinaryCrossEntropyGradient>(type, operands, count, stream);
}

}  // namespace trainer::cuda
