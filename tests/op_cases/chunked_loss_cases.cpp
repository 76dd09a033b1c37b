#include <algorithm>
#include <cmath>

#include "tests/op_cases/mixed_values.h"
#include "tests/op_cases/op_case.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

constexpr float chunked_gradient_scale = 0.125F;

/// The statistics start at these numbers, to which the loss adds.
const Values earlier_statistics = {0.5, 2, 1, 1, 3};

struct ChunkedCase {
  std::string name;
  std::int64_t rows, in, classes;
  LinearCrossEntropyAttributes attributes;
  double spread = 1;  ///< of x
  DType type = DType::f32, gradient_type = DType::f32;
  std::int64_t positions = 0;  ///< in which a sample has a row each; 0: samples have one dimension
};

/// What a scaled loss is multiplied by: the factor first.
const Values chunked_loss_scale = {16, 3, 0};

LinearCrossEntropyAttributes chunks_of(std::int64_t rows, CrossEntropyAttributes loss = {}) {
  return {.loss = std::move(loss), .chunk_rows = rows};
}

LinearCrossEntropyAttributes scaled_chunks_of(std::int64_t rows) {
  LinearCrossEntropyAttributes attributes = chunks_of(rows);
  attributes.scaled = true;
  return attributes;
}

/// As a rank takes them that has all classes of its part.
LinearCrossEntropyAttributes with_part(LinearCrossEntropyAttributes attributes, std::int64_t classes) {
  attributes.part = {.all_classes = classes,
                     .label_smoothing = attributes.loss.label_smoothing,
                     .ignore_index = attributes.loss.ignore_index};
  return attributes;
}

std::vector<ChunkedCase> all_chunked_cases() {
  const CrossEntropyAttributes smoothing{.label_smoothing = 0.1, .class_weights = {}};
  const CrossEntropyAttributes weights{.class_weights = {0.5F, 2, 1.25F}};
  const CrossEntropyAttributes both{.label_smoothing = 0.3, .class_weights = {0.5F, 2, 1.25F}};
  LinearCrossEntropyAttributes no_bias = chunks_of(2), no_input_gradient = chunks_of(3);
  no_bias.bias = false;
  LinearCrossEntropyAttributes scaled_no_bias = scaled_chunks_of(4), bf16_row_by_row = chunks_of(1, both);
  scaled_no_bias.bias = false;
  bf16_row_by_row.input_gradient = false;
  no_input_gradient.input_gradient = false;
  LinearCrossEntropyAttributes mixed_and_scaled = scaled_chunks_of(2);
  mixed_and_scaled.loss.class_weights = weights.class_weights;
  mixed_and_scaled.loss.mixed = true;
  return {
      {"one number", 1, 1, 1, chunks_of(1)},
      {"row by row", 7, 13, 11, chunks_of(1)},
      {"a prime number of rows, one left", 7, 13, 11, chunks_of(3)},
      {"two chunks as long", 6, 5, 17, chunks_of(3)},
      {"one chunk of all rows", 7, 13, 11, chunks_of(7)},
      {"a chunk larger than the batch", 7, 13, 11, chunks_of(64)},
      {"no bias", 5, 3, 7, no_bias},
      {"no gradient of the input", 7, 5, 11, no_input_gradient},
      {"smoothing", 7, 13, 11, chunks_of(4, smoothing)},
      {"class weights", 5, 4, 3, chunks_of(2, weights)},
      {"smoothing and class weights", 5, 4, 3, chunks_of(2, both)},
      {"many rows", 131, 3, 33, chunks_of(32)},
      {"many classes", 5, 7, 1031, chunks_of(2, smoothing)},
      {"large logits", 9, 7, 13, chunks_of(4), 100},
      {"loss scale", 7, 13, 11, scaled_chunks_of(3)},
      {"f16", 7, 13, 11, chunks_of(3), 1, DType::f16},
      {"f16, all in one chunk, gradients in f16", 7, 13, 11, chunks_of(7), 1, DType::f16, DType::f16},
      {"f16, loss scale, no bias", 6, 5, 17, scaled_no_bias, 1, DType::f16},
      {"bf16", 7, 13, 11, chunks_of(3, smoothing), 1, DType::bf16},
      {"bf16, gradients in bf16", 131, 3, 33, chunks_of(32), 1, DType::bf16, DType::bf16},
      {"bf16, row by row, no gradient of the input", 5, 4, 3, bf16_row_by_row, 1, DType::bf16},
      {"samples of three positions, one in two chunks", 6, 13, 11, chunks_of(4, smoothing), 1, DType::f32, DType::f32,
       3},
      {"ignored targets", 7, 5, 4, chunks_of(3, {.class_weights = {}, .ignore_index = 1})},
      {"mixed", 7, 13, 11, chunks_of(3, {.class_weights = {}, .mixed = true})},
      {"mixed, class weights, loss scale", 5, 4, 3, mixed_and_scaled},
      {"bf16, mixed", 9, 5, 17, chunks_of(4, {.label_smoothing = 0.1, .class_weights = {}, .mixed = true}), 1,
       DType::bf16},
      {"of parts of classes", 7, 13, 11, with_part(chunks_of(3), 11)},
      {"of parts, smoothed, ignored targets", 7, 5, 4,
       with_part(chunks_of(3, {.label_smoothing = 0.1, .class_weights = {}, .ignore_index = 1}), 4)},
      {"bf16, of parts, loss scale, no bias", 6, 5, 17, with_part(scaled_no_bias, 17), 1, DType::bf16},
      {"f16, samples of two positions", 6, 13, 11, chunks_of(4), 1, DType::f16, DType::f32, 2},
  };
}

/// What 16 bit leaves of a gradient: its own rounding, and that of the logits' gradient before it is multiplied.
double tolerance_of(const ChunkedCase& c) { return c.type == DType::f32 ? 2e-5 : c.type == DType::f16 ? 5e-4 : 4e-3; }

/// What one number of a batch's loss is made of: x (rows, in), W (classes, in), b (classes).
struct Model {
  const ChunkedCase& c;
  Values targets;

  std::size_t classes() const { return static_cast<std::size_t>(c.classes); }

  Values logits_of(const Values& x, const Values& weight, const Values* bias, std::size_t row) const {
    const auto in = static_cast<std::size_t>(c.in);
    Values logits;
    for (std::size_t j = 0; j < classes(); ++j) {
      double sum = bias == nullptr ? 0 : (*bias)[j];
      for (std::size_t i = 0; i < in; ++i) sum += x[row * in + i] * weight[j * in + i];
      logits.push_back(sum);
    }
    return logits;
  }

  double weight_of(std::size_t target) const {
    const auto& weights = c.attributes.loss.class_weights;
    return weights.empty() ? 1 : static_cast<double>(weights[target]);
  }

  double loss_of(const Values& logits, std::size_t target) const {
    const double shift = *std::max_element(logits.begin(), logits.end());
    double sum = 0, smooth = 0;
    for (const double logit : logits) sum += std::exp(logit - shift);
    const auto cost = [&](std::size_t j) { return weight_of(j) * (std::log(sum) + shift - logits[j]); };
    for (std::size_t j = 0; j < classes(); ++j) smooth += cost(j) / static_cast<double>(classes());
    const double s = c.attributes.loss.label_smoothing;
    return (1 - s) * cost(target) + s * smooth;
  }

  double share_of(std::size_t row) const {
    return c.attributes.loss.mixed ? static_cast<double>(mixed_targets(targets)[row].share) : 1;
  }
  std::size_t class_before(std::size_t row) const {
    return static_cast<std::size_t>(targets[(row + targets.size() - 1) % targets.size()]);
  }
  double loss_of_row(const Values& logits, std::size_t row) const {
    const double share = share_of(row);
    const double own = loss_of(logits, static_cast<std::size_t>(targets[row]));
    return share == 1 ? own : share * own + (1 - share) * loss_of(logits, class_before(row));
  }

  /// The loss of the whole batch, of x, W[, b].
  double total(const std::vector<Values>& inputs) const {
    double sum = 0;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      if (targets[row] == c.attributes.loss.ignore_index) continue;
      sum += loss_of_row(logits_of(inputs[0], inputs[1], bias_of(inputs), row), row);
    }
    return sum;
  }

  Values statistics(const std::vector<Values>& inputs) const {
    Values statistics(num_loss_statistics);
    for (std::size_t row = 0; row < targets.size(); ++row) {
      if (targets[row] == c.attributes.loss.ignore_index) continue;
      const std::size_t target = share_of(row) < 0.5 ? class_before(row) : static_cast<std::size_t>(targets[row]);
      const Values logits = logits_of(inputs[0], inputs[1], bias_of(inputs), row);
      const auto before = std::count_if(logits.begin(), logits.end(), [&](double x) { return x > logits[target]; });
      statistics[loss_sum] += loss_of_row(logits, row);
      statistics[loss_weight] += c.attributes.loss.mixed ? 1 : weight_of(target);
      statistics[num_correct] += before < 1 ? 1 : 0;
      statistics[num_correct_top5] += before < 5 ? 1 : 0;
      statistics[num_counted] += 1;
    }
    return statistics;
  }

  const Values* bias_of(const std::vector<Values>& inputs) const { return c.attributes.bias ? &inputs[2] : nullptr; }
};

TensorType x_of(const ChunkedCase& c) {
  if (c.positions == 0) return {c.type, {c.rows, c.in}};
  return {c.type, {c.rows / c.positions, c.positions, c.in}};
}
TensorType weight_of(const ChunkedCase& c) { return {c.type, {c.classes, c.in}}; }
TensorType targets_of(const ChunkedCase& c) {
  if (c.positions == 0) return {DType::i32, {c.rows}};
  return {DType::i32, {c.rows / c.positions, c.positions}};
}

/// The case of `op` but for its outputs.
OpCase statistics_case(const ChunkedCase& c, const Op& op, Model& model) {
  const std::size_t num_operands = c.attributes.bias ? 3 : 2;
  OpCase result{c.name, op, {}, {}};
  for (std::size_t i = 0; i < num_operands; ++i) {
    const double spread = i == 0 ? c.spread : 1;
    result.inputs.push_back(random_values(op.inputs[i], 1 + static_cast<int>(i), -spread, spread));
    if (c.type == DType::f32) continue;
    for (double& value : result.inputs.back()) value = round_to(c.type, value);
  }
  model.targets = random_values(c.rows, 9, 0, static_cast<double>(c.classes));
  for (double& target : model.targets) target = std::floor(target);
  Values statistics = model.statistics(result.inputs);
  for (std::size_t i = 0; i < statistics.size(); ++i) statistics[i] += earlier_statistics[i];
  result.expected.changed_inputs[static_cast<int>(num_operands) + 1] = statistics;
  result.inputs.push_back(model.targets);
  result.inputs.push_back(earlier_statistics);
  if (c.attributes.loss.mixed) result.inputs.push_back(mixed_values(mixed_targets(model.targets)));
  result.scalars.gradient_scale = chunked_gradient_scale;
  result.tolerance = tolerance_of(c);
  return result;
}

OpCase gradient_case(const ChunkedCase& c) {
  const Op op =
      linear_cross_entropy_with_gradient_op(x_of(c), weight_of(c), targets_of(c), c.attributes, c.gradient_type);
  Model model{c, {}};
  OpCase result = statistics_case(c, op, model);
  const Reference loss = [&](const std::vector<Values>& inputs) { return Values{model.total(inputs)}; };
  const double scale = static_cast<double>(chunked_gradient_scale) * (c.attributes.scaled ? chunked_loss_scale[0] : 1);
  const std::size_t num_operands = c.attributes.bias ? 3 : 2;
  for (std::size_t i = 1; i < num_operands; ++i)
    result.expected.outputs.push_back(finite_difference(loss, result.inputs, i, {scale}));
  if (c.attributes.input_gradient)
    result.expected.outputs.push_back(finite_difference(loss, result.inputs, 0, {scale}));
  if (c.attributes.scaled) result.inputs.push_back(chunked_loss_scale);
  return result;
}

}  // namespace

std::vector<OpCase> linear_cross_entropy_cases() {
  std::vector<OpCase> cases;
  for (const ChunkedCase& c : all_chunked_cases()) {
    Model model{c, {}};
    cases.push_back(
        statistics_case(c, linear_cross_entropy_op(x_of(c), weight_of(c), targets_of(c), c.attributes), model));
    if (c.attributes.part) continue;  // which are not counted
    if (c.classes == 1) continue;     // one logit is a guess by itself, of two classes
    // With a confusion matrix as well.
    ChunkedCase counting = c;
    counting.attributes.counts = true;
    Model counted{counting, {}};
    cases.push_back(statistics_case(
        counting, linear_cross_entropy_op(x_of(c), weight_of(c), targets_of(c), counting.attributes), counted));
    OpCase& added = cases.back();
    added.name += ", counted";
    Values counts(static_cast<std::size_t>(c.classes * c.classes), 2);
    added.inputs.push_back(counts);
    for (std::size_t row = 0; row < counted.targets.size(); ++row) {
      if (counted.targets[row] == c.attributes.loss.ignore_index) continue;
      const Values logits = counted.logits_of(added.inputs[0], added.inputs[1], counted.bias_of(added.inputs), row);
      const auto guess = static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      counts[static_cast<std::size_t>(counted.targets[row]) * counted.classes() + guess] += 1;
    }
    added.expected.changed_inputs[static_cast<int>(added.inputs.size()) - 1] = counts;
  }
  return cases;
}

std::vector<OpCase> linear_cross_entropy_with_gradient_cases() {
  std::vector<OpCase> cases;
  for (const ChunkedCase& c : all_chunked_cases()) cases.push_back(gradient_case(c));
  return cases;
}

}  // namespace trainer
