#include <algorithm>
#include <cmath>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

/// Gradients of a place are small: so that differences show, they are made about as large as 1.
constexpr float dice_gradient_scale = 32;
const Values dice_statistics_before = {0.5, 2, 1, 1, 3};

struct DiceCase {
  std::string name;
  TensorType logits, targets;
  DiceAttributes attributes;
  std::int64_t num_classes = 0;  ///< of targets that are classes
};

std::vector<DiceCase> dices() {
  const DType f32 = DType::f32, i32 = DType::i32;
  return {
      {"one place of two classes", {f32, {1, 2}}, {i32, {1}}, {}, 2},
      {"pixels", {f32, {2, 3, 5, 4}}, {i32, {2, 3, 5}}, {.smooth = 1}, 4},
      {"a class that is ignored", {f32, {2, 3, 5, 4}}, {i32, {2, 3, 5}}, {.smooth = 0.1, .ignore_index = 1}, 4},
      {"another target that is ignored", {f32, {3, 7, 3}}, {i32, {3, 7}}, {.ignore_index = 255}, 3},
      {"one logit of two classes", {f32, {2, 5, 3, 1}}, {i32, {2, 5, 3}}, {.smooth = 1, .ignore_index = 255}, 2},
      {"numbers", {f32, {2, 3, 4, 3}}, {f32, {2, 3, 4, 3}}, {.smooth = 0.5}},
      {"numbers of samples", {f32, {7, 5}}, {f32, {7, 5}}, {}},
      {"many classes", {f32, {3, 4, 67}}, {i32, {3, 4}}, {.smooth = 1}, 67},
      {"many places", {f32, {2, 1031, 3}}, {i32, {2, 1031}}, {.smooth = 1}, 3},
      {"the second of two terms", {f32, {3, 4, 3}}, {i32, {3, 4}}, {.smooth = 1, .term = {.index = 1, .count = 2}}, 3},
  };
}

Values targets_of(const DiceCase& c) {
  Values targets = random_values(c.targets, 2, 0, c.num_classes > 0 ? static_cast<double>(c.num_classes) : 1);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (c.num_classes == 0) {
      if (i % 2 == 0) targets[i] = std::round(targets[i]);
    } else {
      targets[i] = c.attributes.ignore_index == 255 && i % 4 == 1 ? 255 : std::floor(targets[i]);
    }
  }
  return targets;
}

/// Probability and truth of a class at every place that is not ignored.
struct Overlap {
  double both = 0, guessed = 0, truth = 0;
};

std::vector<Overlap> overlaps(const DiceCase& c, const Values& logits, const Values& targets) {
  const auto channels = static_cast<std::size_t>(c.logits.shape[-1]);
  std::vector<Overlap> result(channels);
  for (std::size_t row = 0; row < logits.size() / channels; ++row) {
    const double* const z = logits.data() + row * channels;
    const bool has_classes = c.num_classes > 0;
    if (has_classes && targets[row] == c.attributes.ignore_index) continue;
    double sum = 0;
    for (std::size_t k = 0; k < channels; ++k) sum += std::exp(z[k]);
    for (std::size_t k = 0; k < channels; ++k) {
      const double p = has_classes && channels > 1 ? std::exp(z[k]) / sum : 1 / (1 + std::exp(-z[k]));
      double g = 0;
      if (!has_classes) {
        g = targets[row * channels + k];
      } else if (targets[row] == (channels == 1 ? 1.0 : static_cast<double>(k))) {
        g = 1;
      }
      result[k].both += p * g;
      result[k].guessed += p;
      result[k].truth += g;
    }
  }
  return result;
}

/// Samples times the loss.
double weighted_dice(const DiceCase& c, const Values& logits, const Values& targets) {
  const std::vector<Overlap> classes = overlaps(c, logits, targets);
  double loss = 0;
  for (const Overlap& each : classes)
    loss += 1 - (2 * each.both + c.attributes.smooth) / (each.guessed + each.truth + c.attributes.smooth);
  return static_cast<double>(c.logits.shape[0]) * loss / static_cast<double>(classes.size());
}

Values sums_of(const DiceCase& c, const Values& logits, const Values& targets) {
  Values sums;
  for (const Overlap& each : overlaps(c, logits, targets))
    sums.insert(sums.end(), {each.both, each.guessed, each.truth});
  return sums;
}

Op sums_op_of(const DiceCase& c) { return dice_sums_op(c.logits, c.targets, c.attributes); }

}  // namespace

std::vector<OpCase> dice_sums_cases() {
  std::vector<OpCase> cases;
  for (const DiceCase& c : dices()) {
    const Values logits = random_values(c.logits, 1, -3, 3), targets = targets_of(c);
    cases.push_back({c.name, sums_op_of(c), {logits, targets}, {{sums_of(c, logits, targets)}}});
    cases.back().tolerance = 2e-6;
  }
  return cases;
}

std::vector<OpCase> dice_cases() {
  std::vector<OpCase> cases;
  for (const DiceCase& c : dices()) {
    const Values logits = random_values(c.logits, 1, -3, 3), targets = targets_of(c);
    Values statistics;
    for (int i = 0; i < c.attributes.term.count; ++i)
      statistics.insert(statistics.end(), dice_statistics_before.begin(), dice_statistics_before.end());
    OpCase one{c.name, dice_op(sums_op_of(c)), {logits, targets, sums_of(c, logits, targets), statistics}, {}};
    const auto term = static_cast<std::size_t>(c.attributes.term.index) * num_loss_statistics;
    statistics[term + loss_sum] += weighted_dice(c, logits, targets);
    statistics[term + loss_weight] += static_cast<double>(c.logits.shape[0]);
    one.expected.changed_inputs[3] = statistics;
    one.tolerance = 1e-6;
    cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<OpCase> dice_backward_cases() {
  std::vector<OpCase> cases;
  for (const DiceCase& c : dices()) {
    const Values logits = random_values(c.logits, 1, -3, 3), targets = targets_of(c);
    const Reference loss = [&](const std::vector<Values>& inputs) {
      return Values{weighted_dice(c, inputs[0], targets)};
    };
    const Values gradient = finite_difference(loss, {logits}, 0, {static_cast<double>(dice_gradient_scale)});
    cases.push_back({c.name,
                     dice_backward_op(dice_op(sums_op_of(c))),
                     {logits, targets, sums_of(c, logits, targets)},
                     {{gradient}}});
    StepScalars& scalars = cases.back().scalars;
    const int term = c.attributes.term.index;
    (term == 0 ? scalars.gradient_scale : scalars.further_gradient_scales[term - 1]) = dice_gradient_scale;
    cases.back().tolerance = 1e-5;
  }
  return cases;
}

}  // namespace trainer
