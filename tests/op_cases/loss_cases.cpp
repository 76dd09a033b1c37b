#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

constexpr float gradient_scale = 0.125F;

/// The statistics start at these numbers, to which a loss adds.
const Values statistics_before = {0.5, 2, 1, 1, 3};

Expected added(Values statistics) {
  for (std::size_t i = 0; i < statistics.size(); ++i) statistics[i] += statistics_before[i];
  return {{}, {{2, statistics}}};
}

struct CrossEntropyCase {
  std::string name;
  TensorType logits;
  CrossEntropyAttributes attributes;
  double spread = 3;
};

std::vector<CrossEntropyCase> cross_entropies() {
  const DType f32 = DType::f32;
  return {
      {"one class", {f32, {1, 1}}, {}},
      {"ten classes", {f32, {7, 10}}, {}},
      {"smoothing", {f32, {7, 10}}, {.label_smoothing = 0.1, .class_weights = {}}},
      {"class weights", {f32, {5, 3}}, {.class_weights = {0.5F, 2, 1.25F}}},
      {"smoothing and class weights", {f32, {5, 3}}, {.label_smoothing = 0.3, .class_weights = {0.5F, 2, 1.25F}}},
      {"many samples", {f32, {531, 13}}, {}},
      {"many classes", {f32, {3, 1009}}, {.label_smoothing = 0.1, .class_weights = {}}},
      {"large logits", {f32, {9, 7}}, {}, 300},
      {"a target at each of five positions", {f32, {3, 5, 7}}, {.label_smoothing = 0.1, .class_weights = {}}},
      {"many positions of few samples", {f32, {2, 331, 3}}, {}},
      {"a target a pixel, class weights", {f32, {2, 3, 4, 3}}, {.class_weights = {0.5F, 2, 1.25F}}},
  };
}

/// Logits without their last dimension.
TensorType target_type_of(const CrossEntropyCase& c) {
  return {DType::i32, Shape(std::span(c.logits.shape.begin(), c.logits.shape.end() - 1))};
}

Values targets_of(const CrossEntropyCase& c) {
  Values targets = random_values(target_type_of(c).num_elements(), 2, 0, static_cast<double>(c.logits.shape[-1]));
  for (double& target : targets) target = std::floor(target);
  return targets;
}

/// Loss of one target and what it weighs.
double target_loss(const CrossEntropyCase& c, const double* logits, std::size_t target) {
  const auto classes = static_cast<std::size_t>(c.logits.shape[-1]);
  const double shift = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (std::size_t j = 0; j < classes; ++j) sum += std::exp(logits[j] - shift);
  const auto weight = [&](std::size_t j) {
    return c.attributes.class_weights.empty() ? 1.0 : static_cast<double>(c.attributes.class_weights[j]);
  };
  const auto cost = [&](std::size_t j) { return weight(j) * (std::log(sum) + shift - logits[j]); };
  double smooth = 0;
  for (std::size_t j = 0; j < classes; ++j) smooth += cost(j) / static_cast<double>(classes);
  const double s = c.attributes.label_smoothing;
  return (1 - s) * cost(target) + s * smooth;
}

Values statistics_of(const CrossEntropyCase& c, const Values& logits, const Values& targets) {
  const auto classes = static_cast<std::size_t>(c.logits.shape[-1]);
  Values statistics(num_loss_statistics);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto target = static_cast<std::size_t>(targets[i]);
    const double* const row = logits.data() + i * classes;
    statistics[loss_sum] += target_loss(c, row, target);
    statistics[loss_weight] +=
        c.attributes.class_weights.empty() ? 1 : static_cast<double>(c.attributes.class_weights[target]);
    std::vector<std::size_t> order(classes);
    for (std::size_t j = 0; j < classes; ++j) order[j] = j;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
    const auto rank = std::find(order.begin(), order.end(), target) - order.begin();
    statistics[num_correct] += rank == 0 ? 1 : 0;
    statistics[num_correct_top5] += rank < 5 ? 1 : 0;
    statistics[num_counted] += 1;
  }
  return statistics;
}

/// The loss of the whole batch as its one output.
Reference total(const std::function<double(const Values&)>& loss) {
  return [loss](const std::vector<Values>& inputs) { return Values{loss(inputs[0])}; };
}

Values gradient_of(const CrossEntropyCase& c, const Values& logits, const Values& targets) {
  const auto classes = static_cast<std::size_t>(c.logits.shape[-1]);
  Values gradient;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto f =
        total([&](const Values& row) { return target_loss(c, row.data(), static_cast<std::size_t>(targets[i])); });
    const Values row(logits.begin() + static_cast<std::ptrdiff_t>(i * classes),
                     logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * classes));
    const Values of_row = finite_difference(f, {row}, 0, {static_cast<double>(gradient_scale)});
    gradient.insert(gradient.end(), of_row.begin(), of_row.end());
  }
  return gradient;
}

Op cross_entropy_op_of(const CrossEntropyCase& c) {
  return cross_entropy_op(c.logits, target_type_of(c), c.attributes);
}

std::vector<TensorType> predictions() {
  const DType f32 = DType::f32;
  return {{f32, {1, 1}}, {f32, {5, 3}}, {f32, {211, 101}}, {f32, {3, 5, 7}}, {f32, {2, 3, 4, 5}}};
}

/// A loss over numbers: its cost and what else it counts.
struct NumberLoss {
  Op (*forward)(const TensorType&, const TensorType&);
  Op (*backward)(const Op&);
  double (*cost)(double prediction, double target);
  bool counts_correct;
};

double square(double prediction, double target) { return (prediction - target) * (prediction - target); }
double binary_cross_entropy(double logit, double target) {
  const double p = 1 / (1 + std::exp(-logit));
  return -(target * std::log(p) + (1 - target) * std::log(1 - p));
}

const NumberLoss mean_squared = {mse_op, mse_backward_op, square, false};
const NumberLoss binary = {bce_with_logits_op, bce_with_logits_backward_op, binary_cross_entropy, true};

Values number_targets(const NumberLoss& loss, const TensorType& type) {
  Values targets = random_values(type, 2, 0, 1);
  if (loss.counts_correct)
    for (std::size_t i = 0; i < targets.size(); i += 2) targets[i] = std::round(targets[i]);
  return targets;
}

std::vector<OpCase> forward_cases(const NumberLoss& loss) {
  std::vector<OpCase> cases;
  for (const TensorType& type : predictions()) {
    const Values x = random_values(type, 1, -4, 4);
    const Values targets = number_targets(loss, type);
    Values statistics(num_loss_statistics);
    for (std::size_t i = 0; i < x.size(); ++i) {
      statistics[loss_sum] += loss.cost(x[i], targets[i]);
      statistics[loss_weight] += 1;
      if (!loss.counts_correct) continue;
      statistics[num_correct] += (x[i] > 0) == (targets[i] > 0.5) ? 1 : 0;
      statistics[num_counted] += 1;
    }
    cases.push_back({type.to_string(), loss.forward(type, type), {x, targets, statistics_before}, added(statistics)});
    cases.back().tolerance = 1e-6;
  }
  return cases;
}

std::vector<OpCase> backward_cases(const NumberLoss& loss) {
  std::vector<OpCase> cases;
  for (const TensorType& type : predictions()) {
    const Values x = random_values(type, 1, -4, 4);
    const Values targets = number_targets(loss, type);
    // Each number's loss depends on that number alone, so one difference a number serves the large case too.
    Values gradient;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double target = targets[i];
      const auto f = total([&](const Values& v) { return loss.cost(v[0], target); });
      gradient.push_back(finite_difference(f, {{x[i]}}, 0, {static_cast<double>(gradient_scale)})[0]);
    }
    cases.push_back({type.to_string(), loss.backward(loss.forward(type, type)), {x, targets}, {{gradient}}});
    cases.back().scalars.gradient_scale = gradient_scale;
    cases.back().tolerance = 2e-6;
  }
  return cases;
}

}  // namespace

std::vector<OpCase> cross_entropy_cases() {
  std::vector<OpCase> cases;
  for (const CrossEntropyCase& c : cross_entropies()) {
    const Values logits = random_values(c.logits, 1, -c.spread, c.spread);
    const Values targets = targets_of(c);
    cases.push_back({c.name,
                     cross_entropy_op_of(c),
                     {logits, targets, statistics_before},
                     added(statistics_of(c, logits, targets))});
    cases.back().tolerance = 1e-6;
  }
  // Equal logits: the first class wins, as PyTorch's argmax has it.
  const CrossEntropyCase equal{"equal logits", {DType::f32, {3, 7}}, {}};
  const Values zeros(21);
  const Values targets = {0, 4, 6};
  cases.push_back({equal.name,
                   cross_entropy_op_of(equal),
                   {zeros, targets, statistics_before},
                   added(statistics_of(equal, zeros, targets))});
  return cases;
}

std::vector<OpCase> cross_entropy_backward_cases() {
  std::vector<OpCase> cases;
  for (const CrossEntropyCase& c : cross_entropies()) {
    const Values logits = random_values(c.logits, 1, -c.spread, c.spread);
    const Values targets = targets_of(c);
    cases.push_back({c.name,
                     cross_entropy_backward_op(cross_entropy_op_of(c)),
                     {logits, targets},
                     {{gradient_of(c, logits, targets)}}});
    cases.back().scalars.gradient_scale = gradient_scale;
    cases.back().tolerance = 2e-6;
  }
  return cases;
}

std::vector<OpCase> cross_entropy_with_gradient_cases() {
  std::vector<OpCase> cases;
  for (const CrossEntropyCase& c : cross_entropies()) {
    const Values logits = random_values(c.logits, 1, -c.spread, c.spread);
    const Values targets = targets_of(c);
    Expected expected = added(statistics_of(c, logits, targets));
    expected.outputs = {gradient_of(c, logits, targets)};
    cases.push_back({c.name,
                     cross_entropy_with_gradient_op(cross_entropy_op_of(c)),
                     {logits, targets, statistics_before},
                     expected});
    cases.back().scalars.gradient_scale = gradient_scale;
    cases.back().tolerance = 2e-6;
  }
  return cases;
}

std::vector<OpCase> start_loss_statistics_cases() {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<OpCase> cases;
  for (const double sum : {0.0, 3.5, -1e300, inf, -inf}) {
    OpCase c{"loss sum " + std::to_string(sum), start_loss_statistics_op(), {{sum, 8, 5, 7, 8}}, {}};
    c.expected.changed_inputs[0] = {0, 0, 0, 0, 0};
    OpCase forgetful = c;
    forgetful.name += ", not kept";
    forgetful.op = start_loss_statistics_op({.keeps_non_finite = false});
    cases.push_back(std::move(forgetful));
    OpCase behind_lost_weights = c;
    if (!std::isfinite(sum)) c.expected.changed_inputs[0][loss_sum] = sum;
    cases.push_back(std::move(c));
    const double nan = std::numeric_limits<double>::quiet_NaN();
    behind_lost_weights.name += ", weights lost";
    behind_lost_weights.inputs[0][num_counted] = nan;
    behind_lost_weights.expected.changed_inputs[0] = {nan, 0, 0, 0, nan};
    for (const bool keeps : {false, true}) {
      behind_lost_weights.op = start_loss_statistics_op({.keeps_non_finite = keeps});
      cases.push_back(behind_lost_weights);
    }
  }
  return cases;
}

std::vector<OpCase> mse_cases() { return forward_cases(mean_squared); }
std::vector<OpCase> mse_backward_cases() { return backward_cases(mean_squared); }
std::vector<OpCase> bce_with_logits_cases() { return forward_cases(binary); }
std::vector<OpCase> bce_with_logits_backward_cases() { return backward_cases(binary); }

}  // namespace trainer
