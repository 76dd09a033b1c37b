#include "cuda/kernels/optimizer_update.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/tensor_table.cuh"

namespace trainer::cuda {

namespace {

__device__ __forceinline__ bool loss_is_finite(const UpdateOperands& operands) {
  if (operands.factor != nullptr && operands.factor[gradients_finite] == 0) return false;
  return fabs(operands.statistics[loss_sum]) <= std::numeric_limits<double>::max();
}
__device__ __forceinline__ float clip_factor(const UpdateOperands& operands) {
  return operands.factor == nullptr ? 1.0f : operands.factor[gradient_multiplier];
}

__device__ __forceinline__ bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

struct SgdScalars {
  float clip, weight_decay, momentum, step;
  bool nesterov, starts_momentum;
};

__device__ __forceinline__ SgdScalars sgd_scalars(const UpdateOperands& operands, const SgdRule& a) {
  return {clip_factor(operands),
          static_cast<float>(a.weight_decay),
          static_cast<float>(a.momentum),
          static_cast<float>(operands.scalars->learning_rate),
          a.nesterov,
          operands.scalars->update <= 1};
}

template <typename T, int capacity>
__global__ void __launch_bounds__(table_threads)
    sgd_update_kernel(TensorTable<2, capacity> table, UpdateOperands operands, SgdRule rule) {
  if (!loss_is_finite(operands)) return;
  const SgdScalars s = sgd_scalars(operands, rule);
  const TensorChunk chunk = chunk_of_block(table);
  auto* const weight = static_cast<T*>(table.addresses[0][chunk.tensor]);
  const auto* const gradient = static_cast<const T*>(table.addresses[1][chunk.tensor]);
  for_each_element(chunk, is_aligned(weight) && is_aligned(gradient), [&](auto width, std::int64_t at) {
    constexpr int n = decltype(width)::value;
    Pack<float, n> w = load_floats<n>(weight + at);
    const Pack<float, n> g = load_floats<n>(gradient + at);
    for (int i = 0; i < n; ++i) w.values[i] -= s.step * (g.values[i] * s.clip + s.weight_decay * w.values[i]);
    store_floats(weight + at, w);
  });
}

template <typename T, int capacity>
__global__ void __launch_bounds__(table_threads)
    sgd_momentum_update_kernel(TensorTable<3, capacity> table, UpdateOperands operands,
                               SgdRule rule) {
  if (!loss_is_finite(operands)) return;
  const SgdScalars s = sgd_scalars(operands, rule);
  const TensorChunk chunk = chunk_of_block(table);
  auto* const weight = static_cast<T*>(table.addresses[0][chunk.tensor]);
  const auto* const gradient = static_cast<const T*>(table.addresses[1][chunk.tensor]);
  auto* const momentum = static_cast<float*>(table.addresses[2][chunk.tensor]);
  const bool aligned = is_aligned(weight) && is_aligned(gradient) && is_aligned(momentum);
  for_each_element(chunk, aligned, [&](auto width, std::int64_t at) {
    constexpr int n = decltype(width)::value;
    Pack<float, n> w = load_floats<n>(weight + at);
    const Pack<float, n> g = load_floats<n>(gradient + at);
    Pack<float, n> m = load_floats<n>(momentum + at);
    for (int i = 0; i < n; ++i) {
      const float decayed = g.values[i] * s.clip + s.weight_decay * w.values[i];
      // Whatever the momentum held before the first update, NaN too, is not read.
      const float velocity = s.starts_momentum ? decayed : s.momentum * m.values[i] + decayed;
      m.values[i] = velocity;
      w.values[i] -= s.step * (s.nesterov ? decayed + s.momentum * velocity : velocity);
    }
    store_floats(momentum + at, m);
    store_floats(weight + at, w);
  });
}

struct AdamScalars {
  float clip, weight_decay, shrink, beta2;
  float one_minus_beta1, one_minus_beta2;
  float bias_correction2_root, eps, step;
};

/// torch.optim computes in f32 with scalars in f64 that are rounded when they meet a tensor; so does this.
__device__ __forceinline__ AdamScalars adam_scalars(const UpdateOperands& operands, const AdamRule& a,
                                                    double beta1_power, double beta2_power) {
  const double learning_rate = operands.scalars->learning_rate;
  return {clip_factor(operands),
          a.decoupled ? 0.0f : static_cast<float>(a.weight_decay),
          a.decoupled ? static_cast<float>(1 - learning_rate * a.weight_decay) : 1.0f,
          static_cast<float>(a.beta2),
          static_cast<float>(1 - a.beta1),
          static_cast<float>(1 - a.beta2),
          static_cast<float>(sqrt(1 - beta2_power)),
          static_cast<float>(a.eps),
          static_cast<float>(learning_rate / (1 - beta1_power))};
}

template <typename T, int capacity>
__global__ void __launch_bounds__(table_threads)
    adam_update_kernel(TensorTable<4, capacity> table, UpdateOperands operands, AdamRule rule) {
  if (!loss_is_finite(operands)) return;
  // Powers in f64 take long: two threads compute one each.
  TRAINER_SHARED(double, powers, 2);
  if (threadIdx.x < 2) {
    powers[threadIdx.x] =
        pow(threadIdx.x == 0 ? rule.beta1 : rule.beta2, static_cast<double>(operands.scalars->update));
  }
  __syncthreads();
  TRAINER_SHARED(AdamScalars, shared_scalars, 1);
  if (threadIdx.x == 0) shared_scalars[0] = adam_scalars(operands, rule, powers[0], powers[1]);
  __syncthreads();
  const AdamScalars s = shared_scalars[0];
  const TensorChunk chunk = chunk_of_block(table);
  auto* const weight = static_cast<T*>(table.addresses[0][chunk.tensor]);
  const auto* const gradient = static_cast<const T*>(table.addresses[1][chunk.tensor]);
  auto* const first_moment = static_cast<float*>(table.addresses[2][chunk.tensor]);
  auto* const second_moment = static_cast<float*>(table.addresses[3][chunk.tensor]);
  const bool aligned =
      is_aligned(weight) && is_aligned(gradient) && is_aligned(first_moment) && is_aligned(second_moment);
  for_each_element(chunk, aligned, [&](auto width, std::int64_t at) {
    constexpr int n = decltype(width)::value;
    Pack<float, n> w = load_floats<n>(weight + at);
    const Pack<float, n> g = load_floats<n>(gradient + at);
    Pack<float, n> m = load_floats<n>(first_moment + at);
    Pack<float, n> v = load_floats<n>(second_moment + at);
    for (int i = 0; i < n; ++i) {
      const float decayed = w.values[i] * s.shrink;                         // AdamW; 1 for Adam
      const float value = g.values[i] * s.clip + s.weight_decay * decayed;  // Adam; 0 for AdamW
      const float first = m.values[i] + (value - m.values[i]) * s.one_minus_beta1;
      const float second = v.values[i] * s.beta2 + s.one_minus_beta2 * value * value;
      m.values[i] = first;
      v.values[i] = second;
      const float denominator = sqrtf(second) / s.bias_correction2_root + s.eps;
      w.values[i] = decayed - s.step * (first / denominator);
    }
    store_floats(first_moment + at, m);
    store_floats(second_moment + at, v);
    store_floats(weight + at, w);
  });
}

/// Calls start(element, table, grid) for each launch over `tensors`.
template <int num_addresses, typename Tensor, typename Addresses, typename Start>
void for_each_launch(DType type, std::span<const Tensor> tensors, const Addresses& addresses_of, const Start& start) {
  const auto tensor = [&](std::int64_t i) -> const Tensor& { return tensors[static_cast<std::size_t>(i)]; };
  with_element_type(type, [&](auto element) {
    for_each_table<num_addresses>(
        std::ssize(tensors), [&](std::int64_t i) { return tensor(i).count; },
        [&](std::int64_t i) { return addresses_of(tensor(i)); },
        [&](const auto& table, std::int64_t blocks) { start(element, table, Dim3{static_cast<unsigned>(blocks)}); });
  });
}

}  // namespace

void sgd_update(DType type, const UpdateOperands& operands, std::span<const SgdTensor> tensors,
                const SgdRule& rule, Stream stream) {
  if (rule.momentum != 0) {
    for_each_launch<3>(
        type, tensors,
        [](const SgdTensor& t) {
          return std::array<void*, 3>{t.weight, const_cast<void*>(t.gradient), t.momentum};
        },
        [&]<typename T, int capacity>(ElementType<T>, const TensorTable<3, capacity>& table, Dim3 grid) {
          launch(sgd_momentum_update_kernel<T, capacity>, grid, {table_threads}, stream, table, operands, rule);
        });
  } else {
    for_each_launch<2>(
        type, tensors,
        [](const SgdTensor& t) {
          return std::array<void*, 2>{t.weight, const_cast<void*>(t.gradient)};
        },
        [&]<typename T, int capacity>(ElementType<T>, const TensorTable<2, capacity>& table, Dim3 grid) {
          launch(sgd_update_kernel<T, capacity>, grid, {table_threads}, stream, table, operands, rule);
        });
  }
}

void adam_update(DType type, const UpdateOperands& operands, std::span<const AdamTensor> tensors,
                 const AdamRule& rule, Stream stream) {
  for_each_launch<4>(
      type, tensors,
      [](const AdamTensor& t) {
        return std::array<void*, 4>{t.weight, const_cast<void*>(t.gradient), t.first_moment, t.second_moment};
      },
      [&]<typename T, int capacity>(ElementType<T>, const TensorTable<4, capacity>& table, Dim3 grid) {
        launch(adam_update_kernel<T, capacity>, grid, {table_threads}, stream, table, operands, rule);
      });
}

}  // namespace trainer::cuda
