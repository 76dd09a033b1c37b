#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "tests/op_cases/mixed_values.h"
#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

constexpr float gradient_scale = 0.125F;

/// The statistics of a term start at these numbers, to which a loss adds.
const Values sums_before = {0.5, 2, 1, 1, 3};

Values statistics_before(const LossTerm& term = {}) {
  Values statistics;
  for (int i = 0; i < term.count; ++i) statistics.insert(statistics.end(), sums_before.begin(), sums_before.end());
  return statistics;
}

Expected added(const Values& of_batch, const LossTerm& term = {}) {
  Values statistics = statistics_before(term);
  for (std::size_t i = 0; i < of_batch.size(); ++i)
    statistics[static_cast<std::size_t>(term.index) * num_loss_statistics + i] += of_batch[i];
  return {{}, {{2, statistics}}};
}

/// Each term's factor is another one.
StepScalars scalars_of_term(const LossTerm& term) {
  StepScalars scalars;
  if (term.index == 0) {
    scalars.gradient_scale = gradient_scale;
  } else {
    scalars.further_gradient_scales[term.index - 1] = gradient_scale;
  }
  return scalars;
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
      {"a class that is ignored", {f32, {2, 5, 3, 4}}, {.class_weights = {}, .ignore_index = 2}},
      {"ignored, smoothing and class weights",
       {f32, {61, 3}},
       {.label_smoothing = 0.3, .class_weights = {0.5F, 2, 1.25F}, .ignore_index = 255}},
      {"ignored, many classes", {f32, {7, 1009}}, {.class_weights = {}, .ignore_index = 255}},
      {"all ignored", {f32, {5, 1}}, {.class_weights = {}, .ignore_index = 0}},
      {"mixed", {f32, {11, 10}}, {.class_weights = {}, .mixed = true}},
      {"a mixed sample alone", {f32, {1, 3}}, {.class_weights = {}, .mixed = true}},
      {"mixed, smoothing and class weights",
       {f32, {61, 3}},
       {.label_smoothing = 0.3, .class_weights = {0.5F, 2, 1.25F}, .mixed = true}},
      {"mixed, many classes", {f32, {7, 1031}}, {.label_smoothing = 0.1, .class_weights = {}, .mixed = true}},
      {"mixed, some ignored", {f32, {31, 4}}, {.class_weights = {}, .ignore_index = 255, .mixed = true}},
      {"the last of three terms", {f32, {9, 4}}, {.class_weights = {}, .term = {.index = 2, .count = 3}}},
  };
}

/// Logits without their last dimension.
TensorType target_type_of(const CrossEntropyCase& c) {
  return {DType::i32, Shape(std::span(c.logits.shape.begin(), c.logits.shape.end() - 1))};
}

Values targets_of(const CrossEntropyCase& c) {
  Values targets = random_values(target_type_of(c).num_elements(), 2, 0, static_cast<double>(c.logits.shape[-1]));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const bool is_outside = c.attributes.ignore_index >= c.logits.shape[-1];
    targets[i] = is_outside && i % 3 == 1 ? c.attributes.ignore_index : std::floor(targets[i]);
  }
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

/// What of a row's target is which class.
struct ClassShare {
  std::size_t target = 0;
  double share = 1;
};

/// The greater share first, of equal ones the row's own.
std::vector<ClassShare> shares_of_row(const CrossEntropyCase& c, const Values& targets, std::size_t row) {
  std::vector<ClassShare> shares;
  const auto add = [&](double target, double share) {
    if (target != c.attributes.ignore_index && share > 0) shares.push_back({static_cast<std::size_t>(target), share});
  };
  const double share = c.attributes.mixed ? static_cast<double>(mixed_targets(targets)[row].share) : 1;
  add(targets[row], share);
  add(targets[(row + targets.size() - 1) % targets.size()], 1 - share);
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return shares;
}

double row_loss(const CrossEntropyCase& c, const double* logits, const std::vector<ClassShare>& shares) {
  double loss = 0;
  for (const ClassShare& each : shares) loss += each.share * target_loss(c, logits, each.target);
  return loss;
}

Values statistics_of(const CrossEntropyCase& c, const Values& logits, const Values& targets) {
  const auto classes = static_cast<std::size_t>(c.logits.shape[-1]);
  Values statistics(num_loss_statistics);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::vector<ClassShare> shares = shares_of_row(c, targets, i);
    if (shares.empty()) continue;
    const std::size_t target = shares[0].target;
    const double* const row = logits.data() + i * classes;
    const bool is_weighted = !c.attributes.class_weights.empty() && !c.attributes.mixed;
    statistics[loss_sum] += row_loss(c, row, shares);
    statistics[loss_weight] += is_weighted ? static_cast<double>(c.attributes.class_weights[target]) : 1;
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
    const std::vector<ClassShare> shares = shares_of_row(c, targets, i);
    if (shares.empty()) {
      gradient.insert(gradient.end(), classes, 0);
      continue;
    }
    const auto f = total([&](const Values& row) { return row_loss(c, row.data(), shares); });
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

/// Behind the other inputs.
void add_mixing(OpCase& op_case, const CrossEntropyCase& c, const Values& targets) {
  if (c.attributes.mixed) op_case.inputs.push_back(mixed_values(mixed_targets(targets)));
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

/// PyTorch's SmoothL1Loss.
template <int beta_tenths>
double smooth_absolute(double prediction, double target) {
  constexpr double beta = beta_tenths / 10.0;
  const double error = std::fabs(prediction - target);
  return error < beta ? 0.5 * error * error / beta : error - 0.5 * beta;
}
template <int beta_tenths>
Op smooth_l1_of(const TensorType& prediction, const TensorType& targets) {
  return smooth_l1_op(prediction, targets, {.beta = beta_tenths / 10.0});
}

const NumberLoss absolute = {smooth_l1_of<0>, smooth_l1_backward_op, smooth_absolute<0>, false};
const NumberLoss smooth = {smooth_l1_of<10>, smooth_l1_backward_op, smooth_absolute<10>, false};
const NumberLoss wide = {smooth_l1_of<25>, smooth_l1_backward_op, smooth_absolute<25>, false};
Op mse_of(const TensorType& prediction, const TensorType& targets) { return mse_op(prediction, targets); }
Op bce_of(const TensorType& prediction, const TensorType& targets) { return bce_with_logits_op(prediction, targets); }

const NumberLoss mean_squared = {mse_of, mse_backward_op, square, false};
const NumberLoss binary = {bce_of, bce_with_logits_backward_op, binary_cross_entropy, true};

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
    cases.push_back({type.to_string(), loss.forward(type, type), {x, targets, statistics_before()}, added(statistics)});
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
                     {logits, targets, statistics_before(c.attributes.term)},
                     added(statistics_of(c, logits, targets), c.attributes.term)});
    add_mixing(cases.back(), c, targets);
    cases.back().tolerance = 1e-6;
  }
  // Equal logits: the first class wins, as PyTorch's argmax has it.
  const CrossEntropyCase equal{"equal logits", {DType::f32, {3, 7}}, {}};
  const Values zeros(21);
  const Values targets = {0, 4, 6};
  cases.push_back({equal.name,
                   cross_entropy_op_of(equal),
                   {zeros, targets, statistics_before()},
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
    add_mixing(cases.back(), c, targets);
    cases.back().scalars = scalars_of_term(c.attributes.term);
    cases.back().tolerance = 2e-6;
  }
  return cases;
}

std::vector<OpCase> cross_entropy_with_gradient_cases() {
  std::vector<OpCase> cases;
  for (const CrossEntropyCase& c : cross_entropies()) {
    const Values logits = random_values(c.logits, 1, -c.spread, c.spread);
    const Values targets = targets_of(c);
    Expected expected = added(statistics_of(c, logits, targets), c.attributes.term);
    expected.outputs = {gradient_of(c, logits, targets)};
    cases.push_back({c.name,
                     cross_entropy_with_gradient_op(cross_entropy_op_of(c)),
                     {logits, targets, statistics_before(c.attributes.term)},
                     expected});
    add_mixing(cases.back(), c, targets);
    cases.back().scalars = scalars_of_term(c.attributes.term);
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
  // Of three terms the others are cleared whole.
  OpCase sum{"three terms, the first not finite", start_loss_statistics_op({.num_terms = 3}), {}, {}};
  sum.inputs = {{inf, 8, 5, 7, 8, inf, 2, 3, 4, 5, 1, 2, 3, 4, 5}};
  sum.expected.changed_inputs[0] = Values(15);
  sum.expected.changed_inputs[0][loss_sum] = inf;
  cases.push_back(std::move(sum));
  return cases;
}

std::vector<OpCase> keep_part_statistics_cases() {
  std::vector<OpCase> cases;
  for (const int part : {0, 1}) {
    OpCase c{"part " + std::to_string(part),
             keep_part_statistics_op({.num_parts = 2, .part = part}),
             {{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50, 60, 70, 80, 90, 100}},
             {}};
    c.expected.changed_inputs[0] = {0, 0, 0, 0, 0};
    c.expected.changed_inputs[1] =
        part == 0 ? Values{11, 22, 33, 44, 55, 60, 70, 80, 90, 100} : Values{10, 20, 30, 40, 50, 61, 72, 83, 94, 105};
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> sum_part_statistics_cases() {
  // In another order the small numbers of the first would be lost, or kept.
  OpCase c{"in pairs", sum_part_statistics_op({.num_parts = 4}), {{7, 7, 7, 7, 7}, {}}, {}};
  const double large = 1e17;
  c.inputs[1] = {1,      2, 3, 4, 5,  //
                 large,  2, 3, 4, 5,  //
                 -large, 2, 3, 4, 5,  //
                 8,      2, 3, 4, 5};
  c.expected.changed_inputs[0] = {(1 + large) + (-large + 8), 8, 12, 16, 20};
  c.expected.changed_inputs[1] = Values(20);
  return {c};
}

std::vector<OpCase> mse_cases() {
  std::vector<OpCase> cases = forward_cases(mean_squared);
  // A term whose loss is not finite makes the first one's so.
  const TensorType type{DType::f32, {1, 2}};
  const double inf = std::numeric_limits<double>::infinity();
  const LossTerm second{.index = 1, .count = 2};
  OpCase lost{"a second term that is not finite", mse_op(type, type, second), {{inf, 1}, {0, 0}}, {}};
  lost.inputs.push_back(statistics_before(second));
  lost.expected = added({inf, 2}, second);
  lost.expected.changed_inputs[2][loss_sum] = std::numeric_limits<double>::quiet_NaN();
  cases.push_back(std::move(lost));
  OpCase found{"a second term that is finite", mse_op(type, type, second), {{3, 1}, {0, 0}}, {}};
  found.inputs.push_back(statistics_before(second));
  found.expected = added({10, 2}, second);
  cases.push_back(std::move(found));
  return cases;
}
std::vector<OpCase> mse_backward_cases() {
  std::vector<OpCase> cases = backward_cases(mean_squared);
  const TensorType type{DType::f32, {1, 2}};
  const LossTerm third{.index = 2, .count = 3};
  cases.push_back({"a third term", mse_backward_op(mse_op(type, type, third)), {{3, -1}, {1, 0}}, {{{0.5, -0.25}}}});
  cases.back().scalars = scalars_of_term(third);
  return cases;
}

std::vector<OpCase> smooth_l1_cases() {
  std::vector<OpCase> cases;
  for (const NumberLoss& loss : {absolute, smooth, wide})
    for (OpCase& c : forward_cases(loss)) cases.push_back(std::move(c));
  return cases;
}
std::vector<OpCase> smooth_l1_backward_cases() {
  std::vector<OpCase> cases;
  for (const NumberLoss& loss : {absolute, smooth, wide})
    for (OpCase& c : backward_cases(loss)) cases.push_back(std::move(c));
  // No error has no gradient, as PyTorch's sign has it; what is not finite stays so or has a slope.
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double beta : {0.0, 1.0}) {
    const TensorType type{DType::f32, {1, 5}};
    cases.push_back({"errors of 0 and none that are numbers",
                     smooth_l1_backward_op(smooth_l1_op(type, type, {.beta = beta})),
                     {{0.5, inf, -inf, nan, 3}, {0.5, 1, 1, 1, nan}},
                     {{{0, 1, -1, nan, nan}}}});
  }
  return cases;
}

std::vector<OpCase> bce_with_logits_cases() { return forward_cases(binary); }
std::vector<OpCase> bce_with_logits_backward_cases() { return backward_cases(binary); }

}  // namespace trainer
