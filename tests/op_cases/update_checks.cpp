#include "tests/op_cases/update_checks.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <utility>

#include "tests/op_cases/short_numbers.h"
#include "tests/op_cases/update_formats.h"

namespace trainer {

namespace {

const Values statistics_of_batch = {12.5, 8, 3, 5, 8};

/// Runs the op and puts what it changed into the case's inputs.
void apply(Device& device, OpCase& c) {
  const OpResult result = run_op(device, c, std::byte{0xFF});
  for (std::size_t i = 0; i < c.inputs.size(); ++i) c.inputs[i] = to_values(c.op.inputs[i], result.inputs[i]);
}

/// w ← w − lr · gradient with bf16 weights that all are `weight`.
Values rounded_weights(Device& device, double weight, double gradient, std::int64_t count, const StepScalars& scalars,
                       std::uint32_t stream) {
  const std::vector<TensorType> types = {{DType::bf16, {count}}};
  OpCase c{"", sgd_update_op(types, {.format = {.random_streams = {stream}}}), {}, {}};
  c.inputs = {statistics_of_batch, Values(static_cast<std::size_t>(count), weight),
              Values(static_cast<std::size_t>(count), gradient)};
  c.scalars = scalars;
  apply(device, c);
  return c.inputs[1];
}

// ---- Lost weights ---------------------------------------------------------------------------------------------------

template <typename Attributes>
std::pair<int, int> parameter_operands(const Op& op) {
  const auto& attributes = std::get<Attributes>(op.attributes);
  return {first_parameter_operand(attributes.format), operands_of_a_parameter(attributes)};
}

bool are_weights_lost_after(Device& device, const OpCase& c) {
  const OpResult result = run_op(device, c, std::byte{0xFF});
  return std::isnan(to_values(c.op.inputs[0], result.inputs[0])[num_counted]);
}

// ---- A quadratic ----------------------------------------------------------------------------------------------------

/// ½ Σ curvature · (w − target)², with noise on its gradient.
struct Quadratic {
  static constexpr std::int64_t count = 1031;
  Values curvature = random_values(count, 1, std::log(0.01), std::log(10)), target = random_values(count, 2);

  Quadratic() {
    for (double& value : curvature) value = std::exp(value);
  }
  double loss(const Values& weight) const {
    double sum = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) sum += curvature[i] * std::pow(weight[i] - target[i], 2) / 2;
    return sum;
  }
  Values gradient(const Values& weight, int step) const {
    Values result = random_values(count, 100 + step, -0.1, 0.1);
    for (std::size_t i = 0; i < weight.size(); ++i) result[i] += curvature[i] * (weight[i] - target[i]);
    return result;
  }
};

Values trained_weights(Device& device, const Quadratic& quadratic, bool eight_bit, bool rounds_weights) {
  const DType type = rounds_weights ? DType::bf16 : DType::f32;
  const std::vector<TensorType> types = {{type, {Quadratic::count}}};
  const AdamUpdateAttributes attributes{
      .weight_decay = 0.01,
      .decoupled = true,
      .eight_bit = eight_bit,
      .format = {.random_streams = std::vector<std::uint32_t>(rounds_weights ? 1 : 0, 5)}};
  OpCase c{"", adam_update_op(types, attributes), {statistics_of_batch}, {}};
  for (std::size_t i = 1; i < 5; ++i)
    c.inputs.emplace_back(static_cast<std::size_t>(c.op.inputs[i].num_elements()));  // zeros, the state too
  for (int step = 0; step < 300; ++step) {
    c.inputs[2] = quadratic.gradient(c.inputs[1], step);
    c.scalars = {.seed = 1, .learning_rate = step < 200 ? 0.02 : 0.002, .update = step + 1};
    apply(device, c);
  }
  return c.inputs[1];
}

}  // namespace

void check_stochastic_rounding(Device& device) {
  constexpr std::int64_t count = 200003;
  const StepScalars scalars{.seed = 42, .learning_rate = 1, .update = 3};
  // bf16 has steps of 2^-7 at 1 and, below it, of 2^-8.
  struct Move {
    double weight, gradient, below, above;
  };
  for (const Move& move : {Move{1, -0x1p-10, 1, 1 + 0x1p-7}, Move{1, 0x3p-11, 1 - 0x1p-8, 1},
                           Move{-1, 0x5p-10, -1 - 0x1p-7, -1}, Move{0x1p-100, -0x1p-109, 0x1p-100, 0x81p-107}}) {
    const Values weights = rounded_weights(device, move.weight, move.gradient, count, scalars, 7);
    std::int64_t num_above = 0;
    for (const double weight : weights) {
      if (weight != move.below && weight != move.above) FAIL("rounded to " << weight << ", which is not beside");
      num_above += weight == move.above ? 1 : 0;
    }
    const double share = (move.weight - move.gradient - move.below) / (move.above - move.below);
    // Five standard deviations, which a fair generator misses once in two million.
    const double deviation = std::sqrt(share * (1 - share) / count);
    CHECK(std::fabs(static_cast<double>(num_above) / count - share) < 5 * deviation);
  }
  const Values weights = rounded_weights(device, 1, -0x1p-10, 1031, scalars, 7);
  CHECK(rounded_weights(device, 1, -0x1p-10, 1031, scalars, 7) == weights);
  const Values more = rounded_weights(device, 1, -0x1p-10, 5003, scalars, 7);
  CHECK(std::equal(weights.begin(), weights.end(), more.begin()));  // an element's bits are its own
  CHECK_FALSE(rounded_weights(device, 1, -0x1p-10, 1031, scalars, 8) == weights);
  StepScalars other = scalars;
  other.update = 4;
  CHECK_FALSE(rounded_weights(device, 1, -0x1p-10, 1031, other, 7) == weights);
  other = scalars;
  other.seed = 43;
  CHECK_FALSE(rounded_weights(device, 1, -0x1p-10, 1031, other, 7) == weights);
  // What bf16 holds is not moved.
  CHECK(rounded_weights(device, 1, -0x1p-7, 1031, scalars, 7) == Values(1031, 1 + 0x1p-7));
}

void check_lost_weights(Device& device) {
  // The step behind one that lost weights updates nothing: it begins with a loss that is not finite.
  for (const bool keeps : {false, true}) {
    OpCase next{"", start_loss_statistics_op({.keeps_non_finite = keeps}), {statistics_of_batch}, {}};
    next.inputs[0][num_counted] = std::numeric_limits<double>::quiet_NaN();
    apply(device, next);
    CHECK(std::isnan(next.inputs[0][loss_sum]));
    CHECK(std::isnan(next.inputs[0][num_counted]));
  }
  std::vector<OpCase> cases = sgd_update_cases(), of_adam = adam_update_cases();
  cases.insert(cases.end(), of_adam.begin(), of_adam.end());
  for (const OpCase& c : cases) {
    const bool is_refused = c.expected.changed_inputs.empty();
    const auto [first, step] = c.op.kind == OpKind::sgd_update ? parameter_operands<SgdUpdateAttributes>(c.op)
                                                               : parameter_operands<AdamUpdateAttributes>(c.op);
    INFO(c.name);
    CHECK_FALSE(are_weights_lost_after(device, c));
    const auto last = first + (static_cast<int>(c.inputs.size()) - first) / step * step - step;
    for (const auto& [weight, value] : {std::pair(first, std::numeric_limits<double>::quiet_NaN()),
                                        std::pair(last, -std::numeric_limits<double>::infinity())}) {
      OpCase of_gradient = c, of_weight = c;
      of_gradient.inputs[static_cast<std::size_t>(weight + 1)].back() = value;
      of_weight.inputs[static_cast<std::size_t>(weight)].front() = value;
      CHECK(are_weights_lost_after(device, of_gradient) != is_refused);
      CHECK(are_weights_lost_after(device, of_weight) != is_refused);
    }
  }
}

void check_moment_errors(Device& device) {
  constexpr std::int64_t count = 4099;
  const std::vector<TensorType> types = {{DType::f32, {count}}};
  // Without memory the moments are the gradient and its square.
  OpCase c{"", adam_update_op(types, {.beta1 = 0, .beta2 = 0, .eight_bit = true}), {statistics_of_batch}, {}};
  c.scalars = {.learning_rate = 0.1, .update = 1};
  Values gradient = random_values(count, 3, std::log(1e-12), 0);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<double>(static_cast<float>(std::exp(gradient[i]) * (i % 3 == 0 ? -1 : 1)));
    if (i % 7 == 0) gradient[i] = 0;
  }
  c.inputs.insert(c.inputs.end(), {Values(count, 1.0), gradient});
  const auto state_size = static_cast<std::size_t>(moment_type(count).num_elements());
  c.inputs.insert(c.inputs.end(), 2, Values(state_size));
  apply(device, c);
  const Values first = first_moment_numbers(c.inputs[3], count), second = second_moment_numbers(c.inputs[4], count);
  std::size_t num_wrong = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const std::size_t block = i / 256 * 256;
    double largest = 0;
    for (std::size_t j = block; j < std::min<std::size_t>(block + 256, count); ++j)
      largest = std::max(largest, std::fabs(gradient[j]));
    constexpr double rounding = 1 + 1e-5;  // of f32
    const double root = std::sqrt(std::fabs(gradient[i]) / largest);
    if (std::fabs(first[i] - gradient[i]) > (root / 127 + 1 / (254.0 * 254)) * largest * rounding) ++num_wrong;
    const double square = gradient[i] * gradient[i];
    if ((second[i] == 0) != (gradient[i] == 0)) ++num_wrong;
    // Half a code is 1 / 510 of the fourth root; code 1 stands for all below it.
    const double s = root;  // the fourth root of square / largest²
    const double above = std::pow(s + 1 / 510.0, 4), below = std::pow(std::max(0.0, s - 1 / 510.0), 4);
    const double share = second[i] / (largest * largest);
    if (square > 0 && (share > std::max(above, std::pow(1 / 255.0, 4)) * rounding || share < below / rounding))
      ++num_wrong;
  }
  CHECK(num_wrong == 0);

  c.inputs[2][300] = std::numeric_limits<double>::infinity();
  apply(device, c);
  for (const Values& numbers : {first_moment_numbers(c.inputs[3], count), second_moment_numbers(c.inputs[4], count)}) {
    for (const std::size_t i : {256U, 300U, 511U}) CHECK_FALSE(std::isfinite(numbers[i]));
    for (const std::size_t i : {255U, 512U, 4098U}) CHECK(std::isfinite(numbers[i]));
  }
}

void check_training_with_8_bit_moments(Device& device) {
  const Quadratic quadratic;
  const double at_start = quadratic.loss(Values(Quadratic::count));
  const double exact = quadratic.loss(trained_weights(device, quadratic, false, false));
  const double eight_bit = quadratic.loss(trained_weights(device, quadratic, true, false));
  const double rounded = quadratic.loss(trained_weights(device, quadratic, true, true));
  INFO("loss " << at_start << " at the start; " << exact << " with f32, " << eight_bit << " with 8-bit moments, "
               << rounded << " with bf16 weights too");
  CHECK(exact < 0.01 * at_start);
  CHECK(eight_bit < 1.3 * exact);
  CHECK(rounded < 1.4 * exact);
}

void check_loss_scale_sequences(Device& device, const std::string& golden_file) {
  std::ifstream file(golden_file);
  REQUIRE(file);
  const auto number = [&] {
    std::string word;
    file >> word;
    return std::stod(word);
  };
  const TensorType weight{DType::f32, {1}};
  int num_steps = 0;
  std::string word;
  while (file >> word) {
    REQUIRE(word == "sequence");
    std::string name;
    file >> name;
    Values state = {number(), 0, 0};
    LossScaleAttributes rules;
    rules.growth = number();
    rules.backoff = number();
    rules.interval = static_cast<std::int64_t>(number());
    const auto steps = static_cast<int>(number());
    const UpdateFormat format{.factored = true, .scaled = true};
    OpCase sgd{"", sgd_update_op({&weight, 1}, {.momentum = 0.9, .format = format}), {}, {}};
    OpCase adam{"", adam_update_op({&weight, 1}, {.weight_decay = 0.01, .decoupled = true, .format = format}), {}, {}};
    sgd.inputs = {statistics_of_batch, {}, state, {0.5}, {}, {0}};
    adam.inputs = {statistics_of_batch, {}, state, {0.5}, {}, {0}, {0}};
    int num_skipped = 0;
    for (int step = 0; step < steps; ++step, ++num_steps) {
      INFO(name << ", step " << step);
      const double gradient = number();
      num_skipped += std::isinf(gradient) ? 1 : 0;
      OpCase scale{"", scale_gradient_op(weight), {{gradient}, state}, {}};
      const Values scaled = to_values(weight, run_op(device, scale, std::byte{0xFF}).outputs[0]);
      OpCase combined{"", gradient_factor_op({&weight, 1}, {.scaled = true}), {state, scaled}, {}};
      const Values factor = to_values(combined.op.outputs[0], run_op(device, combined, std::byte{0xFF}).outputs[0]);
      for (OpCase* const update : {&sgd, &adam}) {
        update->inputs[1] = factor;
        update->inputs[2] = state;
        update->inputs[4] = scaled;
        update->scalars = {.learning_rate = update == &sgd ? 0.1 : 0.01, .update = step + 1};
        apply(device, *update);
      }
      OpCase next{"", update_loss_scale_op(rules), {statistics_of_batch, factor, state}, {}};
      apply(device, next);
      state = next.inputs[2];
      CHECK(state[loss_scale_factor] == number());
      CHECK(state[loss_scale_tracker] == number());
      CHECK(state[loss_scale_skipped] == num_skipped);
      CHECK(sgd.inputs[3][0] == Approx(number()).margin(1e-6));
      CHECK(adam.inputs[3][0] == Approx(number()).margin(1e-6));
    }
  }
  CHECK(num_steps == 90);
}

}  // namespace trainer
