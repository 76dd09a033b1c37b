#include <algorithm>
#include <cmath>

#include "engine/cpu/loss_parts.h"
#include "engine/cpu/softmax_row.h"
#include "engine/cpu/vector_math.h"
#include "engine/simd.h"

namespace trainer {
namespace {

TRAINER_SIMD float sum_of(const float* logits, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += logits[i];
  return sum;
}

/// gradients[i] = p_i · share − smoothing; may be stored over the logits.
TRAINER_SIMD void write_part_of_gradients(const float* logits, float* gradients, float shift, float share,
                                          float smoothing, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) gradients[i] = vector_exp(logits[i] - shift) * share - smoothing;
}

/// What all ranks' statistics of a row come to.
struct WholeRow {
  float shift;
  double sum = 0, target = 0, of_all_logits = 0;

  WholeRow(const float* statistics, std::int64_t num_ranks) : shift(statistics[largest_logit]) {
    for (std::int64_t rank = 1; rank < num_ranks; ++rank)
      shift = std::max(shift, statistics[rank * num_class_statistics + largest_logit]);
    for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
      const float* const of_rank = statistics + rank * num_class_statistics;
      sum += static_cast<double>(of_rank[sum_below_largest]) *
             std::exp(static_cast<double>(of_rank[largest_logit]) - static_cast<double>(shift));
      target += static_cast<double>(of_rank[logit_of_target]);
      of_all_logits += static_cast<double>(of_rank[sum_of_logits]);
    }
  }
};

/// The part of each row of logits that this rank has.
struct ClassPart {
  std::int64_t rows, classes, row_statistics;
  ClassPartAttributes attributes;
  RowParts parts;
  int num_threads;

  ClassPart(const Op& op, const CpuContext& context)
      : rows(op.inputs[1].num_elements()),
        classes(op.inputs[0].shape[-1]),
        attributes(attributes_of<ClassPartAttributes>(op)) {
    row_statistics = attributes.ranks.count * num_class_statistics;
    parts = loss_parts(op);
    num_threads = rows * classes <= serial_elements / 4 ? 1 : context.num_threads;
  }

  /// Of a target, among the logits; outside of them where another rank has it.
  std::int64_t place_of(std::int32_t target) const { return target - attributes.first_class; }
  bool has(std::int32_t target) const { return place_of(target) >= 0 && place_of(target) < classes; }
  void require_class(std::int32_t target) const {
    require_internal((target >= 0 && target < attributes.all_classes) || target == attributes.ignore_index,
                     "a target lies within the model's classes");
  }
  /// Calls visit(row) of all rows.
  template <typename Visit>
  void for_each_row(Visit&& visit) const {
    parallel_tasks(num_threads, parts.num_parts, [&](std::int64_t part) {
      for (std::int64_t row = parts.begin(part); row < parts.end(part); ++row) visit(row);
    });
  }
};

std::unique_ptr<CpuKernel> make_class_statistics_kernel(const Op& op, CpuContext& context) {
  return make_kernel([part = ClassPart(op, context)](const OperandAddresses& addresses, const StepScalars&) {
    const float* const logits = input(addresses, 0);
    const auto* const targets = input<std::int32_t>(addresses, 1);
    float* const statistics = output(addresses, 0);
    for (std::int64_t row = 0; row < part.rows; ++row) part.require_class(targets[row]);
    part.for_each_row([&](std::int64_t row) {
      const float* const of_row = logits + row * part.classes;
      float* const all = statistics + row * part.row_statistics;
      std::fill_n(all, part.row_statistics, 0.0F);
      float* const own = all + part.attributes.place * num_class_statistics;
      const Softmax softmax(of_row, part.classes);
      own[largest_logit] = softmax.shift;
      own[sum_below_largest] = static_cast<float>(softmax.sum);
      if (part.has(targets[row])) own[logit_of_target] = of_row[part.place_of(targets[row])];
      if (part.attributes.label_smoothing > 0) own[sum_of_logits] = sum_of(of_row, part.classes);
    });
  });
}

std::unique_ptr<CpuKernel> make_class_order_kernel(const Op& op, CpuContext& context) {
  return make_kernel([part = ClassPart(op, context)](const OperandAddresses& addresses, const StepScalars&) {
    const float* const logits = input(addresses, 0);
    const auto* const targets = input<std::int32_t>(addresses, 1);
    const float* const statistics = input(addresses, 2);
    float* const order = output(addresses, 0);
    part.for_each_row([&](std::int64_t row) {
      const WholeRow whole(statistics + row * part.row_statistics, part.attributes.ranks.count);
      order[row] = static_cast<float>(classes_before(logits + row * part.classes, static_cast<float>(whole.target),
                                                     part.place_of(targets[row]), part.classes));
    });
  });
}

std::unique_ptr<CpuKernel> make_cross_entropy_of_parts_kernel(const Op& op, CpuContext& context) {
  return make_kernel([part = ClassPart(op, context)](const OperandAddresses& addresses, const StepScalars&) {
    const auto* const targets = input<std::int32_t>(addresses, 1);
    const float* const statistics = input(addresses, 2);
    const float* const order = input(addresses, 3);
    const auto classes = static_cast<double>(part.attributes.all_classes);
    const double smoothing = part.attributes.label_smoothing;
    sum_loss_parts(part.num_threads, part.parts, addresses.workspace, modified_input<double>(addresses, 4), {},
                   [&](LossPart& sums, std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       if (targets[row] == part.attributes.ignore_index) continue;
                       const WholeRow whole(statistics + row * part.row_statistics, part.attributes.ranks.count);
                       const double log_sum = static_cast<double>(whole.shift) + std::log(whole.sum);
                       double value = log_sum - whole.target;
                       if (smoothing > 0)
                         value = (1 - smoothing) * value + smoothing * (log_sum - whole.of_all_logits / classes);
                       sums.statistics[loss_sum] += value;
                       sums.statistics[loss_weight] += 1;
                       sums.statistics[num_correct] += order[row] < 1 ? 1 : 0;
                       sums.statistics[num_correct_top5] += order[row] < 5 ? 1 : 0;
                       sums.statistics[num_counted] += 1;
                     }
                   });
  });
}

std::unique_ptr<CpuKernel> make_cross_entropy_of_parts_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel([part = ClassPart(op, context)](const OperandAddresses& addresses, const StepScalars& scalars) {
    const float* const logits = input(addresses, 0);
    const auto* const targets = input<std::int32_t>(addresses, 1);
    const float* const statistics = input(addresses, 2);
    float* const gradients = output(addresses, 0);
    const auto scale = static_cast<double>(scalars.gradient_scale);
    const double of_each = part.attributes.label_smoothing / static_cast<double>(part.attributes.all_classes);
    const double hit = 1 - part.attributes.label_smoothing;
    part.for_each_row([&](std::int64_t row) {
      float* const of_row = gradients + row * part.classes;
      if (targets[row] == part.attributes.ignore_index) {
        std::fill_n(of_row, part.classes, 0.0F);
        return;
      }
      const WholeRow whole(statistics + row * part.row_statistics, part.attributes.ranks.count);
      write_part_of_gradients(logits + row * part.classes, of_row, whole.shift, static_cast<float>(scale / whole.sum),
                              static_cast<float>(scale * of_each), part.classes);
      if (part.has(targets[row])) of_row[part.place_of(targets[row])] -= static_cast<float>(scale * hit);
    });
  });
}

}  // namespace

const CpuOp class_statistics_on_cpu = {make_class_statistics_kernel, cut_nowhere};
const CpuOp class_order_on_cpu = {make_class_order_kernel, cut_nowhere};
const CpuOp cross_entropy_of_parts_on_cpu = {make_cross_entropy_of_parts_kernel, cut_nowhere, loss_workspace_bytes};
const CpuOp cross_entropy_of_parts_backward_on_cpu = {make_cross_entropy_of_parts_backward_kernel, cut_nowhere};

}  // namespace trainer
