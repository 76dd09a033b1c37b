#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "engine/cpu/loss_parts.h"
#include "engine/cpu/softmax_row.h"
#include "engine/cpu/vector_math.h"
#include "engine/ops/mixed_sample.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// Σ weights[i] · (level − values[i]); weights null: 1 each
TRAINER_SIMD double sum_below(const float* values, const float* weights, double level, std::int64_t count) {
  double sum = 0;
  if (weights == nullptr) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) sum += level - static_cast<double>(values[i]);
  } else {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(weights[i]) * (level - static_cast<double>(values[i]));
  }
  return sum;
}

/// gradients[i] = p_i · share − (weights[i] or 1) · smoothing, with softmax p; may be stored over the logits.
TRAINER_SIMD void softmax_gradients(const float* logits, const float* weights, float* gradients, float shift,
                                    float share, float smoothing, std::int64_t count) {
  if (weights == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) gradients[i] = vector_exp(logits[i] - shift) * share - smoothing;
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
      gradients[i] = vector_exp(logits[i] - shift) * share - smoothing * weights[i];
  }
}

/// The classes that a row of logits is to give, each with its share: one, or of a mixed sample two. One that is ignored
/// has none.
struct RowTarget {
  std::int32_t own = 0, other = 0;
  double own_share = 1, other_share = 0;

  double share() const { return own_share + other_share; }
  std::int32_t greater() const { return own_share >= other_share ? own : other; }
};

/// A sample is a target here, with its row of logits. With smoothing s, K classes and weights w, a sample of class t
/// costs, as PyTorch's, (1 − s)·w_t·(−log p_t) + s/K · Σ_j w_j·(−log p_j).
struct CrossEntropy {
  std::int64_t samples, classes;
  double smoothing;
  std::vector<float> weights;
  double weight_sum;
  std::int32_t ignored;
  LossTerm term;
  bool mixed;
  RowParts parts;
  int num_threads;

  CrossEntropy(const Op& op, const CpuContext& context)
      : samples(op.inputs[1].num_elements()), classes(op.inputs[0].shape[-1]) {
    const auto& attributes = attributes_of<CrossEntropyAttributes>(op);
    smoothing = attributes.label_smoothing;
    weights = attributes.class_weights;
    ignored = attributes.ignore_index;
    term = attributes.term;
    mixed = attributes.mixed;
    require_internal(weights.empty() || static_cast<std::int64_t>(weights.size()) == classes,
                     "there is one class weight a class");
    weight_sum = weights.empty() ? static_cast<double>(classes) : std::accumulate(weights.begin(), weights.end(), 0.0);
    parts = loss_parts(op);
    num_threads = samples * classes <= serial_elements / 4 ? 1 : context.num_threads;
  }

  /// Of sample number `sample`; `mixing` null: it has one of its own alone.
  RowTarget target_of(std::int64_t sample, const std::int32_t* targets, const MixedSample* mixing) const {
    RowTarget target{targets[sample], targets[sample]};
    if (target.own == ignored) target.own_share = 0;
    if (mixing == nullptr) return target;
    const double share = static_cast<double>(mixing[sample].share);
    target.own_share *= share;
    target.other = mixing[sample].partner_class;
    target.other_share = target.other == ignored ? 0 : 1 - share;
    return target;
  }
  const float* weights_or_null() const { return weights.empty() ? nullptr : weights.data(); }
  double weight_of(std::int64_t target) const {
    return weights.empty() ? 1.0 : static_cast<double>(weights[static_cast<std::size_t>(target)]);
  }

  /// What reads the labels has refused those that are no classes.
  void require_classes(const std::int32_t* targets, const MixedSample* mixing) const {
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      require_class(targets[sample]);
      if (mixing != nullptr) require_class(mixing[sample].partner_class);
    }
  }
  void require_class(std::int32_t target) const {
    if ((target < 0 || target >= classes) && target != ignored)
      throw InternalError("internal error: cross_entropy: a target lies outside the model's classes 0 to " +
                          std::to_string(classes - 1) + ": " + std::to_string(target));
  }
};

void summarize(const CrossEntropy& loss, const float* logits, const Softmax& softmax, const RowTarget& target,
               LossPart& part) {
  const double log_sum = static_cast<double>(softmax.shift) + std::log(softmax.sum);
  double value = 0;
  if (target.own_share > 0)
    value = target.own_share * loss.weight_of(target.own) * (log_sum - static_cast<double>(logits[target.own]));
  if (target.other_share > 0)
    value += target.other_share * loss.weight_of(target.other) * (log_sum - static_cast<double>(logits[target.other]));
  if (loss.smoothing > 0)
    value = (1 - loss.smoothing) * value + target.share() * loss.smoothing / static_cast<double>(loss.classes) *
                                               sum_below(logits, loss.weights_or_null(), log_sum, loss.classes);
  const std::int32_t greater = target.greater();
  const std::int64_t rank = classes_before(logits, logits[greater], greater, loss.classes);
  part.statistics[loss_sum] += value;
  part.statistics[loss_weight] += loss.mixed ? 1 : loss.weight_of(target.own);
  part.statistics[num_correct] += rank < 1 ? 1 : 0;
  part.statistics[num_correct_top5] += rank < 5 ? 1 : 0;
  part.statistics[num_counted] += 1;
}

/// `gradients` may be the logits.
void write_gradients(const CrossEntropy& loss, const float* logits, const Softmax& softmax, const RowTarget& target,
                     double scale, float* gradients) {
  const auto weight_of = [&](std::int32_t of, double share) {
    return share > 0 ? share * (1 - loss.smoothing) * loss.weight_of(of) : 0;
  };
  const double of_own = weight_of(target.own, target.own_share), of_other = weight_of(target.other, target.other_share);
  const double of_each = target.share() * loss.smoothing / static_cast<double>(loss.classes);
  softmax_gradients(logits, loss.weights_or_null(), gradients, softmax.shift,
                    static_cast<float>(scale * (of_own + of_other + of_each * loss.weight_sum) / softmax.sum),
                    static_cast<float>(scale * of_each), loss.classes);
  if (of_own > 0) gradients[target.own] -= static_cast<float>(scale * of_own);
  if (of_other > 0) gradients[target.other] -= static_cast<float>(scale * of_other);
}

const MixedSample* mixing_of(const CrossEntropy& loss, const OperandAddresses& addresses, int position) {
  return loss.mixed ? input<MixedSample>(addresses, position) : nullptr;
}

std::unique_ptr<CpuKernel> make_cross_entropy_kernel(const Op& op, CpuContext& context) {
  return make_kernel([loss = CrossEntropy(op, context)](const OperandAddresses& addresses, const StepScalars&) {
    const float* const logits = input(addresses, 0);
    const auto* const targets = input<std::int32_t>(addresses, 1);
    const MixedSample* const mixing = mixing_of(loss, addresses, 3);
    loss.require_classes(targets, mixing);
    sum_loss_parts(loss.num_threads, loss.parts, addresses.workspace, modified_input<double>(addresses, 2), loss.term,
                   [&](LossPart& part, std::int64_t begin, std::int64_t end) {
                     for (std::int64_t sample = begin; sample < end; ++sample) {
                       const RowTarget target = loss.target_of(sample, targets, mixing);
                       if (target.share() == 0) continue;
                       const float* const row = logits + sample * loss.classes;
                       summarize(loss, row, Softmax(row, loss.classes), target, part);
                     }
                   });
  });
}

std::unique_ptr<CpuKernel> make_cross_entropy_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel([loss = CrossEntropy(op, context)](const OperandAddresses& addresses, const StepScalars& scalars) {
    const float* const logits = input(addresses, 0);
    const auto* const targets = input<std::int32_t>(addresses, 1);
    float* const gradients = output(addresses, 0);
    const auto scale = static_cast<double>(scalars.gradient_scale_of(loss.term));
    const MixedSample* const mixing = mixing_of(loss, addresses, 2);
    loss.require_classes(targets, mixing);
    parallel_tasks(loss.num_threads, loss.parts.num_parts, [&](std::int64_t part) {
      for (std::int64_t sample = loss.parts.begin(part); sample < loss.parts.end(part); ++sample) {
        const float* const row = logits + sample * loss.classes;
        float* const of_row = gradients + sample * loss.classes;
        const RowTarget target = loss.target_of(sample, targets, mixing);
        if (target.share() == 0)
          std::fill_n(of_row, loss.classes, 0.0F);
        else
          write_gradients(loss, row, Softmax(row, loss.classes), target, scale, of_row);
      }
    });
  });
}

std::unique_ptr<CpuKernel> make_cross_entropy_with_gradient_kernel(const Op& op, CpuContext& context) {
  return make_kernel([loss = CrossEntropy(op, context)](const OperandAddresses& addresses, const StepScalars& scalars) {
    const float* const logits = input(addresses, 0);
    const auto* const targets = input<std::int32_t>(addresses, 1);
    float* const gradients = output(addresses, 0);
    const auto scale = static_cast<double>(scalars.gradient_scale_of(loss.term));
    const MixedSample* const mixing = mixing_of(loss, addresses, 3);
    loss.require_classes(targets, mixing);
    sum_loss_parts(loss.num_threads, loss.parts, addresses.workspace, modified_input<double>(addresses, 2), loss.term,
                   [&](LossPart& part, std::int64_t begin, std::int64_t end) {
                     for (std::int64_t sample = begin; sample < end; ++sample) {
                       const float* const row = logits + sample * loss.classes;
                       float* const of_row = gradients + sample * loss.classes;
                       const RowTarget target = loss.target_of(sample, targets, mixing);
                       if (target.share() == 0) {
                         std::fill_n(of_row, loss.classes, 0.0F);
                         continue;
                       }
                       const Softmax softmax(row, loss.classes);
                       summarize(loss, row, softmax, target, part);
                       write_gradients(loss, row, softmax, target, scale, of_row);
                     }
                   });
  });
}

}  // namespace

const CpuOp cross_entropy_on_cpu = {make_cross_entropy_kernel, cut_nowhere, loss_workspace_bytes};
const CpuOp cross_entropy_backward_on_cpu = {make_cross_entropy_backward_kernel, cut_nowhere, no_workspace};
const CpuOp cross_entropy_with_gradient_on_cpu = {make_cross_entropy_with_gradient_kernel, cut_nowhere,
                                                  loss_workspace_bytes};

}  // namespace trainer
