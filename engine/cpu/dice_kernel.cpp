#include <algorithm>

#include "engine/cpu/loss_parts.h"
#include "engine/cpu/softmax_row.h"
#include "engine/cpu/vector_math.h"
#include "engine/ops/dice.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void softmax_probabilities(const float* logits, float* probabilities, float shift, float share,
                                        std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) probabilities[i] = vector_exp(logits[i] - shift) * share;
}

TRAINER_SIMD void sigmoid_probabilities(const float* logits, float* probabilities, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) probabilities[i] = vector_sigmoid(logits[i]);
}

/// A row is a place of a sample, with its channels: Note [Dice] in engine/ops/dice.h.
struct Dice {
  DiceShape shape;
  DiceAttributes attributes;
  RowParts parts;
  int num_threads;

  Dice(const Op& op, const CpuContext& context)
      : shape(dice_shape_of(op)), attributes(attributes_of<DiceAttributes>(op)), parts(row_parts(shape.rows, 64)) {
    num_threads = shape.rows * shape.channels <= serial_elements / 4 ? 1 : context.num_threads;
  }

  /// What reads the labels has refused those that are no classes.
  void require_classes(const std::int32_t* targets) const {
    const std::int64_t classes = std::max<std::int64_t>(shape.channels, 2);
    for (std::int64_t row = 0; shape.has_classes && row < shape.rows; ++row)
      require_internal(targets[row] == attributes.ignore_index || (targets[row] >= 0 && targets[row] < classes),
                       "a target of dice is a class or ignored");
  }
  bool is_ignored(const void* targets, std::int64_t row) const {
    return shape.has_classes && static_cast<const std::int32_t*>(targets)[row] == attributes.ignore_index;
  }

  void write_probabilities(const float* logits, float* probabilities) const {
    if (!shape.is_softmax()) {
      sigmoid_probabilities(logits, probabilities, shape.channels);
      return;
    }
    const Softmax softmax(logits, shape.channels);
    softmax_probabilities(logits, probabilities, softmax.shift, static_cast<float>(1 / softmax.sum), shape.channels);
  }

  /// The truth of a channel in a row.
  float truth(const void* targets, std::int64_t row, std::int64_t channel) const {
    if (!shape.has_classes) return static_cast<const float*>(targets)[row * shape.channels + channel];
    const std::int32_t target = static_cast<const std::int32_t*>(targets)[row];
    return target == (shape.channels == 1 ? 1 : channel) ? 1.0F : 0.0F;
  }
};

/// Scratch of the ops: for each part the probabilities of a row, behind what is a number a class.
struct DiceScratch {
  float* probabilities = nullptr;
  std::int64_t channels = 0;

  float* of_part(std::int64_t part) const { return probabilities + part * channels; }
};
std::int64_t dice_scratch_bytes(const Dice& dice) {
  return dice.parts.num_parts * dice.shape.channels * static_cast<std::int64_t>(sizeof(float));
}

/// Adds the rows of a part to its sums, (channels, num_dice_sums).
void add_rows(const Dice& dice, const float* logits, const void* targets, std::int64_t begin, std::int64_t end,
              float* probabilities, double* sums) {
  const std::int64_t channels = dice.shape.channels;
  for (std::int64_t row = begin; row < end; ++row) {
    if (dice.is_ignored(targets, row)) continue;
    dice.write_probabilities(logits + row * channels, probabilities);
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto p = static_cast<double>(probabilities[c]), g = static_cast<double>(dice.truth(targets, row, c));
      sums[num_dice_sums * c] += p * g;
      sums[num_dice_sums * c + 1] += p;
      sums[num_dice_sums * c + 2] += g;
    }
  }
}

std::int64_t num_part_sums(const Dice& dice) { return dice.parts.num_parts * dice.shape.channels * num_dice_sums; }

std::int64_t dice_sums_workspace_bytes(const Op& op, CpuContext& context) {
  const Dice dice(op, context);
  return num_part_sums(dice) * static_cast<std::int64_t>(sizeof(double)) + dice_scratch_bytes(dice);
}

std::unique_ptr<CpuKernel> make_dice_sums_kernel(const Op& op, CpuContext& context) {
  return make_kernel([dice = Dice(op, context)](const OperandAddresses& addresses, const StepScalars&) {
    const float* const logits = input(addresses, 0);
    const void* const targets = addresses.inputs[1];
    dice.require_classes(input<std::int32_t>(addresses, 1));
    const std::int64_t num_sums = dice.shape.channels * num_dice_sums;
    auto* const parts = static_cast<double*>(addresses.workspace);
    const DiceScratch scratch{reinterpret_cast<float*>(parts + num_part_sums(dice)), dice.shape.channels};
    parallel_tasks(dice.num_threads, dice.parts.num_parts, [&](std::int64_t part) {
      double* const of_part = parts + part * num_sums;
      std::fill_n(of_part, num_sums, 0.0);
      add_rows(dice, logits, targets, dice.parts.begin(part), dice.parts.end(part), scratch.of_part(part), of_part);
    });
    auto* const sums = output<double>(addresses, 0);
    std::fill_n(sums, num_sums, 0.0);
    for (std::int64_t part = 0; part < dice.parts.num_parts; ++part)
      for (std::int64_t i = 0; i < num_sums; ++i) sums[i] += parts[part * num_sums + i];
  });
}

std::unique_ptr<CpuKernel> make_dice_kernel(const Op& op, CpuContext&) {
  return make_kernel([shape = dice_shape_of(op), attributes = attributes_of<DiceAttributes>(op)](
                         const OperandAddresses& addresses, const StepScalars&) {
    const auto* const sums = input<double>(addresses, 2);
    double loss = 0;
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const double* const of_class = sums + num_dice_sums * c;
      loss += 1 - (2 * of_class[0] + attributes.smooth) / (of_class[1] + of_class[2] + attributes.smooth);
    }
    auto* const statistics = modified_input<double>(addresses, 3);
    double* const of_term = statistics_of(attributes.term, statistics);
    of_term[loss_sum] += static_cast<double>(shape.batch) * loss / static_cast<double>(shape.channels);
    of_term[loss_weight] += static_cast<double>(shape.batch);
    tell_first_term(attributes.term, statistics);
  });
}

/// The loss's slope for the probability of class c at a place of truth g is level[c] − reward[c] · g.
struct DiceSlopes {
  float *level, *reward;
};

void fill_slopes(const Dice& dice, const double* sums, double scale, const DiceSlopes& slopes) {
  const double share = scale * static_cast<double>(dice.shape.batch) / static_cast<double>(dice.shape.channels);
  for (std::int64_t c = 0; c < dice.shape.channels; ++c) {
    const double* const of_class = sums + num_dice_sums * c;
    const double total = of_class[1] + of_class[2] + dice.attributes.smooth;
    slopes.level[c] = static_cast<float>(share * (2 * of_class[0] + dice.attributes.smooth) / (total * total));
    slopes.reward[c] = static_cast<float>(share * 2 / total);
  }
}

void write_dice_gradients(const Dice& dice, const DiceSlopes& slopes, const float* logits, const void* targets,
                          std::int64_t row, float* probabilities, float* gradients) {
  const std::int64_t channels = dice.shape.channels;
  if (dice.is_ignored(targets, row)) {
    std::fill_n(gradients, channels, 0.0F);
    return;
  }
  dice.write_probabilities(logits, probabilities);
  double mean_slope = 0;  // of a softmax, by its probabilities
  for (std::int64_t c = 0; c < channels; ++c) {
    gradients[c] = slopes.level[c] - slopes.reward[c] * dice.truth(targets, row, c);
    mean_slope += static_cast<double>(probabilities[c]) * static_cast<double>(gradients[c]);
  }
  if (dice.shape.is_softmax()) {
    const auto mean = static_cast<float>(mean_slope);
    for (std::int64_t c = 0; c < channels; ++c) gradients[c] = probabilities[c] * (gradients[c] - mean);
  } else {
    for (std::int64_t c = 0; c < channels; ++c) gradients[c] *= probabilities[c] * (1 - probabilities[c]);
  }
}

std::int64_t dice_backward_workspace_bytes(const Op& op, CpuContext& context) {
  const Dice dice(op, context);
  return 2 * dice.shape.channels * static_cast<std::int64_t>(sizeof(float)) + dice_scratch_bytes(dice);
}

std::unique_ptr<CpuKernel> make_dice_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel([dice = Dice(op, context)](const OperandAddresses& addresses, const StepScalars& scalars) {
    const float* const logits = input(addresses, 0);
    const void* const targets = addresses.inputs[1];
    float* const gradients = output(addresses, 0);
    const std::int64_t channels = dice.shape.channels;
    auto* const numbers = static_cast<float*>(addresses.workspace);
    const DiceSlopes slopes{numbers, numbers + channels};
    const DiceScratch scratch{numbers + 2 * channels, channels};
    fill_slopes(dice, input<double>(addresses, 2), static_cast<double>(scalars.gradient_scale_of(dice.attributes.term)),
                slopes);
    parallel_tasks(dice.num_threads, dice.parts.num_parts, [&](std::int64_t part) {
      for (std::int64_t row = dice.parts.begin(part); row < dice.parts.end(part); ++row)
        write_dice_gradients(dice, slopes, logits + row * channels, targets, row, scratch.of_part(part),
                             gradients + row * channels);
    });
  });
}

}  // namespace

const CpuOp dice_sums_on_cpu = {make_dice_sums_kernel, cut_nowhere, dice_sums_workspace_bytes};
const CpuOp dice_on_cpu = {make_dice_kernel, cut_nowhere};
const CpuOp dice_backward_on_cpu = {make_dice_backward_kernel, cut_nowhere, dice_backward_workspace_bytes};

}  // namespace trainer
