#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/tensor_blocks.h"
#include "engine/cpu/weight_rounding.h"
#include "engine/half.h"
#include "engine/ops/moment_codes.h"
#include "engine/simd.h"
#include "engine/stochastic_rounding.h"

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

/// 1 for an infinity or a NaN.
TRAINER_SIMD_INLINE std::uint32_t is_lost(float weight) {
  constexpr std::uint32_t exponent = 0x7F800000;
  return (std::bit_cast<std::uint32_t>(weight) & exponent) == exponent ? 1 : 0;
}

// Each returns whether a weight that it made is not finite: 1, else 0.

TRAINER_SIMD std::uint32_t sgd_plain(float* w, const float* g, SgdScalars s, std::int64_t begin, std::int64_t end) {
  std::uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (std::int64_t i = begin; i < end; ++i) {
    w[i] -= s.step * (g[i] * s.clip + s.weight_decay * w[i]);
    lost |= is_lost(w[i]);
  }
  return lost;
}

TRAINER_SIMD std::uint32_t sgd_first_momentum(float* w, const float* g, float* m, SgdScalars s, bool nesterov,
                                              std::int64_t begin, std::int64_t end) {
  const float ahead = nesterov ? 1 + s.momentum : 1;
  std::uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = g[i] * s.clip + s.weight_decay * w[i];
    m[i] = gradient;
    w[i] -= s.step * (gradient * ahead);
    lost |= is_lost(w[i]);
  }
  return lost;
}

TRAINER_SIMD std::uint32_t sgd_momentum(float* w, const float* g, float* m, SgdScalars s, std::int64_t begin,
                                        std::int64_t end) {
  std::uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = g[i] * s.clip + s.weight_decay * w[i];
    const float velocity = s.momentum * m[i] + gradient;
    m[i] = velocity;
    w[i] -= s.step * velocity;
    lost |= is_lost(w[i]);
  }
  return lost;
}

TRAINER_SIMD std::uint32_t sgd_nesterov(float* w, const float* g, float* m, SgdScalars s, std::int64_t begin,
                                        std::int64_t end) {
  std::uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = g[i] * s.clip + s.weight_decay * w[i];
    const float velocity = s.momentum * m[i] + gradient;
    m[i] = velocity;
    w[i] -= s.step * (gradient + s.momentum * velocity);
    lost |= is_lost(w[i]);
  }
  return lost;
}

TRAINER_SIMD std::uint32_t adam(float* w, const float* g, float* m, float* v, AdamScalars s, std::int64_t begin,
                                std::int64_t end) {
  std::uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (std::int64_t i = begin; i < end; ++i) {
    const float decayed = w[i] * s.shrink;                            // AdamW; 1 for Adam
    const float gradient = g[i] * s.clip + s.weight_decay * decayed;  // Adam; 0 for AdamW
    const float first = m[i] + (gradient - m[i]) * s.one_minus_beta1;
    const float second = v[i] * s.beta2 + s.one_minus_beta2 * gradient * gradient;
    m[i] = first;
    v[i] = second;
    const float denominator = std::sqrt(second) / s.bias_correction2_root + s.eps;
    w[i] = decayed - s.step * (first / denominator);
    lost |= is_lost(w[i]);
  }
  return lost;
}

/// Elements that are converted at a time: what is then in f32 stays in the first-level cache.
constexpr std::int64_t piece_elements = 1024;
static_assert(tensor_block_elements % piece_elements == 0 && piece_elements % moment_block_elements == 0 &&
              piece_elements % rounding_elements == 0);

/// What the tensors of an update are and how they are walked.
class UpdateWalk {
 public:
  UpdateWalk(const Op& op, const UpdateFormat& format, int operands_each, bool eight_bit, const CpuContext& context)
      : format_(format),
        eight_bit_(eight_bit),
        first_operand_(static_cast<std::size_t>(first_parameter_operand(format))),
        operands_each_(static_cast<std::size_t>(operands_each)),
        num_threads_(context.num_threads) {
    for (std::size_t i = first_operand_; i < op.inputs.size(); i += operands_each_) {
      counts_.push_back(op.inputs[i].num_elements());
      append_tensor_blocks(op.inputs[i], i, blocks_);
    }
    if (blocks_.size() < 2) num_threads_ = 1;
  }

  bool is_refused(const OperandAddresses& addresses) const {
    return (format_.scaled && input(addresses, 1)[gradients_finite] == 0) ||
           !std::isfinite(input<double>(addresses, 0)[loss_sum]);
  }
  float factor(const OperandAddresses& addresses) const {
    return format_.factored ? input(addresses, 1)[gradient_multiplier] : 1.0F;
  }
  /// The number of this update among those that were made since the state began.
  double update(const OperandAddresses& addresses, const StepScalars& scalars, const UpdatePace& pace) const {
    return static_cast<double>(scalars.update - pace.updates_before) -
           (format_.scaled ? input<double>(addresses, 2)[loss_scale_skipped] : 0);
  }

  /// Calls update(weight, gradient, first state, second state, count) for parts of every parameter, all in f32; state
  /// that the optimizer does not have is null. What it returns says whether weights are lost.
  template <int num_states, typename Update>
  void run(const OperandAddresses& addresses, const StepScalars& scalars, const Update& update) const {
    std::atomic<bool> are_lost = false;
    const auto run_part = [&](const TensorBlock& block, std::int64_t begin, std::int64_t count) {
      if (run_piece<num_states>(addresses, scalars, block.tensor, begin, count, update) != 0) are_lost = true;
    };
    parallel_tasks(num_threads_, static_cast<std::int64_t>(blocks_.size()), [&](std::int64_t i) {
      const TensorBlock& block = blocks_[static_cast<std::size_t>(i)];
      if (is_all_f32()) {
        run_part(block, block.begin, block.end - block.begin);
        return;
      }
      for (std::int64_t begin = block.begin; begin < block.end; begin += piece_elements)
        run_part(block, begin, std::min(piece_elements, block.end - begin));
    });
    if (are_lost) modified_input<double>(addresses, 0)[num_counted] = std::numeric_limits<double>::quiet_NaN();
  }

 private:
  bool rounds_weights() const { return !format_.random_streams.empty(); }
  bool is_all_f32() const { return format_.gradients == DType::f32 && !rounds_weights() && !eight_bit_; }

  struct Moment {
    std::uint8_t* codes = nullptr;
    float* largest = nullptr;
  };
  /// The part of an 8-bit moment that begins at `begin`.
  static Moment moment_at(void* state, std::int64_t count, std::int64_t begin) {
    auto* const codes = static_cast<std::uint8_t*>(state);
    return {codes + begin, reinterpret_cast<float*>(codes + moment_code_bytes(count)) + begin / moment_block_elements};
  }

  template <int num_states, typename Update>
  std::uint32_t run_piece(const OperandAddresses& addresses, const StepScalars& scalars, std::size_t operand,
                          std::int64_t begin, std::int64_t count, const Update& update) const {
    const std::size_t parameter = (operand - first_operand_) / operands_each_;
    const auto at = static_cast<int>(operand);
    alignas(64) float weights[piece_elements], gradients[piece_elements], states[2][piece_elements];

    float* weight = modified_input(addresses, at) + begin;
    BFloat16* const rounded = modified_input<BFloat16>(addresses, at) + begin;
    if (rounds_weights()) {
      widen(DType::bf16, rounded, weights, count);
      weight = weights;
    }
    const float* gradient = input(addresses, at + 1) + begin;
    if (format_.gradients != DType::f32) {
      widen(format_.gradients, input<std::uint16_t>(addresses, at + 1) + begin, gradients, count);
      gradient = gradients;
    }
    const int first_state = at + (format_.copies ? 3 : 2);
    float* state[2] = {nullptr, nullptr};
    Moment moments[2];
    for (int s = 0; s < num_states; ++s) {
      void* const address = addresses.inputs[static_cast<std::size_t>(first_state + s)];
      state[s] = eight_bit_ ? states[s] : static_cast<float*>(address) + begin;
      if (eight_bit_) moments[s] = moment_at(address, counts_[parameter], begin);
    }

    if (eight_bit_) {
      read_first_moment(moments[0].codes, moments[0].largest, states[0], count);
      read_second_moment(moments[1].codes, moments[1].largest, states[1], count);
    }
    const std::uint32_t lost = update(weight, gradient, state[0], state[1], count);
    if (eight_bit_) {
      write_first_moment(states[0], moments[0].codes, moments[0].largest, count);
      write_second_moment(states[1], moments[1].codes, moments[1].largest, count);
    }
    if (rounds_weights()) {
      PhiloxStream stream{scalars.seed, format_.random_streams[parameter], static_cast<std::uint32_t>(scalars.update)};
      if (!format_.first_elements.empty())
        stream.first_block = static_cast<std::uint64_t>(format_.first_elements[parameter] / rounding_elements);
      round_weights(stream, begin, weights, rounded, count);
    }
    if (format_.copies) write_copy(addresses, at, begin, count, weight);
    return lost;
  }

  /// With weights of 16 bits, of the weight as it is now.
  void write_copy(const OperandAddresses& addresses, int at, std::int64_t begin, std::int64_t count,
                  const float* weight) const {
    auto* const copy = modified_input<std::uint16_t>(addresses, at + 2) + begin;
    alignas(64) float stored[piece_elements];
    if (rounds_weights()) {
      widen(DType::bf16, modified_input<BFloat16>(addresses, at) + begin, stored, count);
      weight = stored;
    }
    narrow(*format_.copies, weight, copy, count);
  }

  std::vector<TensorBlock> blocks_;
  std::vector<std::int64_t> counts_;  // of elements, by parameter
  UpdateFormat format_;
  bool eight_bit_ = false;
  std::size_t first_operand_ = 1, operands_each_ = 2;
  int num_threads_ = 1;
};

std::unique_ptr<CpuKernel> make_sgd_update_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<SgdUpdateAttributes>(op);
  return make_kernel([a = attributes, has_momentum = attributes.momentum > 0,
                      walk = UpdateWalk(op, attributes.format, operands_of_a_parameter(attributes), false, context)](
                         const OperandAddresses& addresses, const StepScalars& scalars) {
    if (walk.is_refused(addresses)) return;
    const double momentum = a.pace.cycles_momentum ? scalars.momentum : a.momentum;
    const SgdScalars s = {walk.factor(addresses), static_cast<float>(a.weight_decay), static_cast<float>(momentum),
                          static_cast<float>(scalars.learning_rate * a.pace.rate_factor)};
    if (!has_momentum) {
      walk.run<0>(addresses, scalars, [&](float* w, const float* g, float*, float*, std::int64_t count) {
        return sgd_plain(w, g, s, 0, count);
      });
      return;
    }
    const bool is_first = walk.update(addresses, scalars, a.pace) <= 1;
    walk.run<1>(addresses, scalars, [&](float* w, const float* g, float* m, float*, std::int64_t count) {
      if (is_first) return sgd_first_momentum(w, g, m, s, a.nesterov, 0, count);
      return (a.nesterov ? sgd_nesterov : sgd_momentum)(w, g, m, s, 0, count);
    });
  });
}

std::unique_ptr<CpuKernel> make_adam_update_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<AdamUpdateAttributes>(op);
  return make_kernel([a = attributes, walk = UpdateWalk(op, attributes.format, operands_of_a_parameter(attributes),
                                                        attributes.eight_bit, context)](
                         const OperandAddresses& addresses, const StepScalars& scalars) {
    if (walk.is_refused(addresses)) return;
    const double update = walk.update(addresses, scalars, a.pace);
    const double beta1 = a.pace.cycles_momentum ? scalars.momentum : a.beta1;
    const double learning_rate = scalars.learning_rate * a.pace.rate_factor;
    const double bias_correction1 = 1 - std::pow(beta1, update);
    const double bias_correction2 = 1 - std::pow(a.beta2, update);
    const AdamScalars s = {walk.factor(addresses),
                           a.decoupled ? 0.0F : static_cast<float>(a.weight_decay),
                           a.decoupled ? static_cast<float>(1 - learning_rate * a.weight_decay) : 1.0F,
                           static_cast<float>(a.beta2),
                           static_cast<float>(1 - beta1),
                           static_cast<float>(1 - a.beta2),
                           static_cast<float>(std::sqrt(bias_correction2)),
                           static_cast<float>(a.eps),
                           static_cast<float>(learning_rate / bias_correction1)};
    walk.run<2>(addresses, scalars, [&](float* w, const float* g, float* m, float* v, std::int64_t count) {
      return adam(w, g, m, v, s, 0, count);
    });
  });
}

}  // namespace

const CpuOp sgd_update_on_cpu = {make_sgd_update_kernel, takes_16_bit};
const CpuOp adam_update_on_cpu = {make_adam_update_kernel, takes_16_bit};

}  // namespace trainer
