#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/batch_part.h"
#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

constexpr float parts_gradient_scale = 32;
const Values parts_statistics_before = {0.5, 2, 1, 1, 3};

/// One rank's part of the classes of some rows.
struct ClassPartCase {
  std::string name;
  Shape targets;
  std::int64_t num_classes, num_ranks, place;
  double smoothing = 0;
  std::int32_t ignored = no_ignored_target;

  BatchPart own(std::int64_t of) const { return part_of_batch(num_classes, num_ranks, of); }
  BatchPart own() const { return own(place); }
  std::size_t rows() const { return static_cast<std::size_t>(targets.num_elements()); }
};

std::vector<ClassPartCase> class_parts() {
  return {{"the first half of a row", {1}, 4, 2, 0},
          {"the second half", {5}, 6, 2, 1},
          {"a part of one class", {3, 4}, 4, 3, 2},
          {"tokens, smoothed", {3, 7}, 25, 2, 1, 0.1},
          {"targets that are ignored", {4, 5}, 11, 3, 1, 0.2, 2},
          {"many classes", {2, 3}, 1301, 2, 0, 0.05},
          {"many rows", {2, 701}, 7, 2, 0}};
}

/// (rows, classes) of all ranks.
Values whole_logits(const ClassPartCase& c) {
  return random_values(c.targets.num_elements() * c.num_classes, 1, -4, 4);
}

Values targets_of(const ClassPartCase& c) {
  Values targets = random_values(c.targets.num_elements(), 2, 0, static_cast<double>(c.num_classes));
  for (double& target : targets) target = std::floor(target);
  return targets;
}

Values own_logits(const ClassPartCase& c, const Values& whole) {
  Values own;
  for (std::size_t row = 0; row < c.rows(); ++row) {
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(row) * c.num_classes + c.own().begin;
    own.insert(own.end(), first, first + c.own().count);
  }
  return own;
}

/// Statistics (rows, ranks, num_class_statistics); of one rank alone, or of all.
Values statistics_of(const ClassPartCase& c, const Values& whole, const Values& targets, bool of_all) {
  Values statistics;
  for (std::size_t row = 0; row < c.rows(); ++row)
    for (std::int64_t rank = 0; rank < c.num_ranks; ++rank) {
      if (!of_all && rank != c.place) {
        statistics.insert(statistics.end(), num_class_statistics, 0.0);
        continue;
      }
      const BatchPart part = c.own(rank);
      const double* const logits = whole.data() + static_cast<std::int64_t>(row) * c.num_classes + part.begin;
      const double largest = *std::max_element(logits, logits + part.count);
      double sum = 0, all = 0;
      for (std::int64_t i = 0; i < part.count; ++i) {
        sum += std::exp(logits[i] - largest);
        all += logits[i];
      }
      const std::int64_t place = static_cast<std::int64_t>(targets[row]) - part.begin;
      statistics.insert(statistics.end(), {largest, static_cast<double>(static_cast<float>(sum)),
                                           place >= 0 && place < part.count ? logits[place] : 0.0,
                                           c.smoothing > 0 ? static_cast<double>(static_cast<float>(all)) : 0.0});
    }
  return statistics;
}

/// Classes of some ranks before the target's.
double order_of(const ClassPartCase& c, const Values& whole, std::size_t row, double target, BatchPart part) {
  const double* const logits = whole.data() + static_cast<std::int64_t>(row) * c.num_classes;
  const double reached = logits[static_cast<std::int64_t>(target)];
  double before = 0;
  for (std::int64_t i = part.begin; i < part.begin + part.count; ++i)
    before += logits[i] > reached || (logits[i] == reached && static_cast<double>(i) < target) ? 1 : 0;
  return before;
}

Values orders_of(const ClassPartCase& c, const Values& whole, const Values& targets, BatchPart part) {
  Values orders;
  for (std::size_t row = 0; row < c.rows(); ++row) orders.push_back(order_of(c, whole, row, targets[row], part));
  return orders;
}

/// PyTorch's, of all classes at once.
double loss_of_row(const ClassPartCase& c, const double* logits, double target) {
  double sum = 0, all = 0;
  for (std::int64_t i = 0; i < c.num_classes; ++i) {
    sum += std::exp(logits[i]);
    all += logits[i];
  }
  const double log_sum = std::log(sum);
  return (1 - c.smoothing) * (log_sum - logits[static_cast<std::int64_t>(target)]) +
         c.smoothing * (log_sum - all / static_cast<double>(c.num_classes));
}

Op statistics_op_of(const ClassPartCase& c) {
  std::vector<std::int64_t> dims(c.targets.begin(), c.targets.end());
  dims.push_back(c.own().count);
  return class_statistics_op({DType::f32, Shape(dims)}, {DType::i32, c.targets},
                             {.ranks = {c.num_ranks},
                              .place = c.place,
                              .first_class = c.own().begin,
                              .all_classes = c.num_classes,
                              .label_smoothing = c.smoothing,
                              .ignore_index = c.ignored});
}

}  // namespace

std::vector<OpCase> class_statistics_cases() {
  std::vector<OpCase> cases;
  for (const ClassPartCase& c : class_parts()) {
    const Values whole = whole_logits(c), targets = targets_of(c);
    cases.push_back(
        {c.name, statistics_op_of(c), {own_logits(c, whole), targets}, {{statistics_of(c, whole, targets, false)}}});
    cases.back().tolerance = 2e-5;
  }
  return cases;
}

std::vector<OpCase> class_order_cases() {
  std::vector<OpCase> cases;
  for (const ClassPartCase& c : class_parts()) {
    const Values whole = whole_logits(c), targets = targets_of(c);
    cases.push_back({c.name,
                     class_order_op(statistics_op_of(c)),
                     {own_logits(c, whole), targets, statistics_of(c, whole, targets, true)},
                     {{orders_of(c, whole, targets, c.own())}}});
  }
  return cases;
}

std::vector<OpCase> cross_entropy_of_parts_cases() {
  std::vector<OpCase> cases;
  for (const ClassPartCase& c : class_parts()) {
    const Values whole = whole_logits(c), targets = targets_of(c);
    const Values orders = orders_of(c, whole, targets, {0, c.num_classes});
    Values statistics = parts_statistics_before;
    OpCase one{c.name,
               cross_entropy_of_parts_op(statistics_op_of(c)),
               {own_logits(c, whole), targets, statistics_of(c, whole, targets, true), orders, statistics},
               {}};
    for (std::size_t row = 0; row < c.rows(); ++row) {
      if (targets[row] == c.ignored) continue;
      statistics[loss_sum] +=
          loss_of_row(c, whole.data() + static_cast<std::int64_t>(row) * c.num_classes, targets[row]);
      statistics[loss_weight] += 1;
      statistics[num_correct] += orders[row] < 1 ? 1 : 0;
      statistics[num_correct_top5] += orders[row] < 5 ? 1 : 0;
      statistics[num_counted] += 1;
    }
    one.expected.changed_inputs[4] = statistics;
    one.tolerance = 2e-6;
    cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<OpCase> cross_entropy_of_parts_backward_cases() {
  std::vector<OpCase> cases;
  for (const ClassPartCase& c : class_parts()) {
    const Values whole = whole_logits(c), targets = targets_of(c);
    const Reference loss = [&](const std::vector<Values>& inputs) {
      Values all = whole;
      double sum = 0;
      for (std::size_t row = 0; row < c.rows(); ++row) {
        double* const of_row = all.data() + static_cast<std::int64_t>(row) * c.num_classes;
        std::copy_n(inputs[0].data() + static_cast<std::int64_t>(row) * c.own().count, c.own().count,
                    of_row + c.own().begin);
        if (targets[row] != c.ignored) sum += loss_of_row(c, of_row, targets[row]);
      }
      return Values{sum};
    };
    const Values own = own_logits(c, whole);
    const Values gradient = finite_difference(loss, {own}, 0, {static_cast<double>(parts_gradient_scale)});
    cases.push_back({c.name,
                     cross_entropy_of_parts_backward_op(cross_entropy_of_parts_op(statistics_op_of(c))),
                     {own, targets, statistics_of(c, whole, targets, true)},
                     {{gradient}}});
    cases.back().scalars.gradient_scale = parts_gradient_scale;
    cases.back().tolerance = 3e-5;
  }
  return cases;
}

}  // namespace trainer
