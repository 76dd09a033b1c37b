#include <cmath>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/simd.h"
#include "engine/cpu/tensor_blocks.h"

namespace trainer {

namespace {

/// torch.optim computes in f32 with scalars in f64 that are rounded when they meet a tensor; so do these.
struct SgdScalars {
  float clip, weight_decay, momentum, step;
};
struct AdamScalars {
  float clip, weight_decay, shrink, beta2;
  float one_minus_beta1, one_minus_beta2;
  float bias_correction2_root, eps, step;
};

TRAINER_SIMD void sgd_plain(float* w, const float* g, SgdScalars s, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) w[i] -= s.step * (g[i] * s.clip + s.weight_decay * w[i]);
}

TRAINER_SIMD void sgd_first_momentum(float* w, const float* g, float* m, SgdScalars s, bool nesterov,
                                     std::int64_t begin, std::int64_t end) {
  const float ahead = nesterov ? 1 + s.momentum : 1;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = g[i] * s.clip + s.weight_decay * w[i];
    m[i] = gradient;
    w[i] -= s.step * (gradient * ahead);
  }
}

TRAINER_SIMD void sgd_momentum(float* w, const float* g, float* m, SgdScalars s, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = g[i] * s.clip + s.weight_decay * w[i];
    const float velocity = s.momentum * m[i] + gradient;
    m[i] = velocity;
    w[i] -= s.step * velocity;
  }
}

TRAINER_SIMD void sgd_nesterov(float* w, const float* g, float* m, SgdScalars s, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = g[i] * s.clip + s.weight_decay * w[i];
    const float velocity = s.momentum * m[i] + gradient;
    m[i] = velocity;
    w[i] -= s.step * (gradient + s.momentum * velocity);
  }
}

TRAINER_SIMD void adam(float* w, const float* g, float* m, float* v, AdamScalars s, std::int64_t begin,
                       std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float decayed = w[i] * s.shrink;                            // AdamW; 1 for Adam
    const float gradient = g[i] * s.clip + s.weight_decay * decayed;  // Adam; 0 for AdamW
    const float first = m[i] + (gradient - m[i]) * s.one_minus_beta1;
    const float second = v[i] * s.beta2 + s.one_minus_beta2 * gradient * gradient;
    m[i] = first;
    v[i] = second;
    const float denominator = std::sqrt(second) / s.bias_correction2_root + s.eps;
    w[i] = decayed - s.step * (first / denominator);
  }
}

/// Where a parameter's tensors stand among the inputs: `stride` tensors each, behind the loss and the clip factor.
struct UpdateLayout {
  std::vector<TensorBlock> blocks;
  bool factored = false;
  int num_threads = 1;

  UpdateLayout(const Op& op, const UpdateFormat& format, std::size_t stride, const CpuContext& context)
      : factored(format.factored), num_threads(context.num_threads) {
    // Until the other formats have kernels.
    require_internal(format == UpdateFormat{.factored = factored}, "the formats of an update have kernels");
    for (auto i = static_cast<std::size_t>(first_parameter_operand(format)); i < op.inputs.size(); i += stride)
      append_tensor_blocks(op.inputs[i], i, blocks);
    if (blocks.size() < 2) num_threads = 1;
  }

  bool is_refused(const OperandAddresses& addresses) const {
    return (factored && input(addresses, 1)[gradients_finite] == 0) ||
           !std::isfinite(input<double>(addresses, 0)[loss_sum]);
  }
  float clip_factor(const OperandAddresses& addresses) const {
    return factored ? input(addresses, 1)[gradient_multiplier] : 1.0F;
  }

  template <typename Update>
  void for_each_block(Update&& update) const {
    parallel_tasks(num_threads, static_cast<std::int64_t>(blocks.size()),
                   [&](std::int64_t i) { update(blocks[static_cast<std::size_t>(i)]); });
  }
};

}  // namespace

std::unique_ptr<CpuKernel> make_sgd_update_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<SgdUpdateAttributes>(op);
  const bool has_momentum = attributes.momentum != 0;
  return make_kernel(
      [attributes, has_momentum, layout = UpdateLayout(op, attributes.format, has_momentum ? 3 : 2, context)](
          const OperandAddresses& addresses, const StepScalars& scalars) {
        if (layout.is_refused(addresses)) return;
        const SgdScalars s = {layout.clip_factor(addresses), static_cast<float>(attributes.weight_decay),
                              static_cast<float>(attributes.momentum), static_cast<float>(scalars.learning_rate)};
        layout.for_each_block([&](const TensorBlock& block) {
          const int at = static_cast<int>(block.tensor);
          float* const w = modified_input(addresses, at);
          const float* const g = input(addresses, at + 1);
          if (!has_momentum) return sgd_plain(w, g, s, block.begin, block.end);
          float* const m = modified_input(addresses, at + 2);
          if (scalars.update <= 1) return sgd_first_momentum(w, g, m, s, attributes.nesterov, block.begin, block.end);
          (attributes.nesterov ? sgd_nesterov : sgd_momentum)(w, g, m, s, block.begin, block.end);
        });
      });
}

std::unique_ptr<CpuKernel> make_adam_update_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<AdamUpdateAttributes>(op);
  return make_kernel([a = attributes, layout = UpdateLayout(op, attributes.format, 4, context)](
                         const OperandAddresses& addresses, const StepScalars& scalars) {
    if (layout.is_refused(addresses)) return;
    const auto update = static_cast<double>(scalars.update);
    const double bias_correction1 = 1 - std::pow(a.beta1, update);
    const double bias_correction2 = 1 - std::pow(a.beta2, update);
    const AdamScalars s = {layout.clip_factor(addresses),
                           a.decoupled ? 0.0F : static_cast<float>(a.weight_decay),
                           a.decoupled ? static_cast<float>(1 - scalars.learning_rate * a.weight_decay) : 1.0F,
                           static_cast<float>(a.beta2),
                           static_cast<float>(1 - a.beta1),
                           static_cast<float>(1 - a.beta2),
                           static_cast<float>(std::sqrt(bias_correction2)),
                           static_cast<float>(a.eps),
                           static_cast<float>(scalars.learning_rate / bias_correction1)};
    layout.for_each_block([&](const TensorBlock& block) {
      const int at = static_cast<int>(block.tensor);
      adam(modified_input(addresses, at), input(addresses, at + 1), modified_input(addresses, at + 2),
           modified_input(addresses, at + 3), s, block.begin, block.end);
    });
  });
}

}  // namespace trainer
