#include <algorithm>
#include <cmath>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct ConfusionCase {
  std::string name;
  TensorType logits, targets;
  std::int64_t num_classes = 0;  ///< of targets that are classes
  std::int32_t ignored = no_ignored_target;
};

std::vector<ConfusionCase> confusions() {
  const DType f32 = DType::f32, i32 = DType::i32;
  return {
      {"one sample", {f32, {1, 2}}, {i32, {1}}, 2},
      {"samples", {f32, {331, 10}}, {i32, {331}}, 10},
      {"pixels, a class ignored", {f32, {2, 17, 19, 3}}, {i32, {2, 17, 19}}, 3, 1},
      {"pixels, another target ignored", {f32, {2, 7, 9, 5}}, {i32, {2, 7, 9}}, 5, 255},
      {"as many classes as a block counts", {f32, {701, 32}}, {i32, {701}}, 32},
      {"more classes than a block counts", {f32, {703, 33}}, {i32, {703}}, 33},
      {"many classes", {f32, {37, 1031}}, {i32, {37}}, 1031},
      {"one logit of two classes", {f32, {2, 31, 5, 1}}, {i32, {2, 31, 5}}, 2, 255},
      {"numbers", {f32, {3, 41, 2}}, {f32, {3, 41, 2}}},
      {"many pixels", {f32, {1, 131, 67, 2}}, {i32, {1, 131, 67}}, 2},
  };
}

OpCase confusion_case(const ConfusionCase& c, const Values& logits) {
  const auto channels = static_cast<std::size_t>(c.logits.shape[-1]);
  const bool has_classes = c.num_classes > 0;
  Values targets = random_values(c.targets, 2, 0, has_classes ? static_cast<double>(c.num_classes) : 1);
  for (std::size_t i = 0; i < targets.size() && has_classes; ++i)
    targets[i] = c.ignored == 255 && i % 4 == 1 ? 255 : std::floor(targets[i]);
  const Op op = confusion_matrix_op(c.logits, c.targets, {.ignore_index = c.ignored});
  OpCase result{c.name, op, {logits, targets}, {}};
  const auto classes = static_cast<std::size_t>(op.inputs[2].shape[0]);
  Values counts(classes * classes);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<double>(i % 7);
  result.inputs.push_back(counts);
  for (std::size_t row = 0; row < logits.size() / channels; ++row) {
    const double* const z = logits.data() + row * channels;
    if (!has_classes) {
      for (std::size_t k = 0; k < channels; ++k)
        counts[(targets[row * channels + k] > 0.5 ? classes : 0) + (z[k] > 0 ? 1 : 0)] += 1;
      continue;
    }
    if (targets[row] == c.ignored) continue;
    std::size_t guess = channels == 1 && z[0] > 0 ? 1 : 0;
    for (std::size_t k = 1; k < channels; ++k)
      if (z[k] > z[guess] || (std::isnan(z[guess]) && !std::isnan(z[k]))) guess = k;
    if (std::isnan(z[guess])) guess = 0;
    counts[static_cast<std::size_t>(targets[row]) * classes + guess] += 1;
  }
  result.expected.changed_inputs[2] = counts;
  result.tolerance = 0;
  return result;
}

}  // namespace

std::vector<OpCase> confusion_matrix_cases() {
  std::vector<OpCase> cases;
  for (const ConfusionCase& c : confusions()) cases.push_back(confusion_case(c, random_values(c.logits, 1, -3, 3)));
  // Of equal logits the first class is the guess, as PyTorch's argmax has it.
  for (const std::int64_t classes : {3, 40}) {
    const ConfusionCase equal{"equal logits", {DType::f32, {9, classes}}, {DType::i32, {9}}, classes};
    cases.push_back(confusion_case(equal, Values(static_cast<std::size_t>(9 * classes))));
  }
  // A NaN is no guess, and a row of nothing else guesses the first class.
  const ConfusionCase lost{"NaN", {DType::f32, {9, 5}}, {DType::i32, {9}}, 5};
  Values logits = random_values(lost.logits, 1, -3, 3);
  for (const std::size_t i : {0, 7, 9, 14, 20, 21, 22, 23, 24, 41, 42}) logits[i] = std::nan("");
  cases.push_back(confusion_case(lost, logits));
  return cases;
}

std::vector<OpCase> error_statistics_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 3}, Shape{211, 101}, Shape{2, 3, 4, 5}, Shape{3, 4099}}) {
    const TensorType type{DType::f32, shape};
    const Values prediction = random_values(type, 1, -4, 4), targets = random_values(type, 2, -1, 5);
    Values sums = {0.5, 2, -1, 4, 3};
    OpCase one{shape.to_string(), error_statistics_op(type, type), {prediction, targets, sums}, {}};
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      const double error = prediction[i] - targets[i];
      sums[absolute_error_sum] += std::fabs(error);
      sums[squared_error_sum] += error * error;
      sums[target_sum] += targets[i];
      sums[squared_target_sum] += targets[i] * targets[i];
      sums[num_error_numbers] += 1;
    }
    one.expected.changed_inputs[2] = sums;
    one.tolerance = 1e-12;
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace trainer
