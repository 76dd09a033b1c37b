#include <cmath>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct LinearCase {
  std::string name;
  TensorType x;
  LinearAttributes attributes;
};

std::vector<LinearCase> all_linear_cases() {
  const DType f32 = DType::f32;
  return {
      {"one number", {f32, {1, 1}}, {.out = 1}},
      {"primes", {f32, {7, 13}}, {.out = 11}},
      {"primes, relu", {f32, {7, 13}}, {.out = 11, .relu = true}},
      {"no bias", {f32, {3, 5}}, {.out = 2, .bias = false}},
      {"no bias, relu", {f32, {3, 5}}, {.out = 2, .bias = false, .relu = true}},
      {"three dimensions", {f32, {2, 3, 17}}, {.out = 19}},
      {"images", {f32, {2, 3, 5, 7}}, {.out = 4}},
      {"images, relu", {f32, {3, 2, 1, 5}}, {.out = 70, .relu = true}},
      {"wide", {f32, {5, 70}}, {.out = 131}},
      {"many rows", {f32, {67, 3}}, {.out = 33}},
  };
}

/// inputs: x (rows, in), W (out, in)[, b]
Reference linear_reference(const LinearCase& c) {
  return [in = c.x.shape[-1], a = c.attributes](const std::vector<Values>& inputs) {
    const auto rows = static_cast<std::int64_t>(inputs[0].size()) / in;
    Values y;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t out = 0; out < a.out; ++out) {
        double sum = a.bias ? inputs[2][static_cast<std::size_t>(out)] : 0.0;
        for (std::int64_t i = 0; i < in; ++i)
          sum += inputs[0][static_cast<std::size_t>(row * in + i)] * inputs[1][static_cast<std::size_t>(out * in + i)];
        y.push_back(a.relu && sum < 0 ? 0 : sum);
      }
    }
    return y;
  };
}

std::vector<Values> linear_inputs(const Op& op) {
  std::vector<Values> inputs;
  for (const TensorType& type : op.inputs) inputs.push_back(random_values(type, 1 + static_cast<int>(inputs.size())));
  return inputs;
}

// Note [Activations in products] in engine/ops/linear.h.

double gelu_of(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

/// Each number of x after ReLU, or after GELU's approximation.
Values activated(Values x, bool relu) {
  for (double& value : x) value = relu ? (value > 0 ? value : 0) : gelu_of(value);
  return x;
}

/// Whole rows of 128 bits: what pads shorter ones is open.
Values mask_of(const Values& y) {
  Values bytes(y.size() / 8, 0);
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] > 0) bytes[i / 8] += 1U << (i % 8);
  return bytes;
}

/// A GPU's library approximates tanh in f32 to 2e-4; the gradient has a factor of up to 20 outputs on top.
constexpr double fused_gelu_tolerance = 1e-3;

std::vector<LinearCase> keeping_cases() {
  const DType f32 = DType::f32;
  return {
      {"relu and its mask", {f32, {7, 13}}, {.out = 128, .relu = true, .keeps = true}},
      {"relu and its mask, one row", {f32, {1, 5}}, {.out = 384, .relu = true, .keeps = true}},
      {"relu and its mask, no bias, three dimensions",
       {f32, {3, 5, 2}},
       {.out = 256, .bias = false, .relu = true, .keeps = true}},
      {"gelu and its sums", {f32, {7, 13}}, {.out = 8, .gelu = true, .keeps = true}},
      {"gelu and its sums, no bias, three dimensions",
       {f32, {3, 5, 17}},
       {.out = 24, .bias = false, .gelu = true, .keeps = true}},
  };
}

OpCase keeping_case(const LinearCase& c) {
  LinearCase plain = c;
  plain.attributes = {.out = c.attributes.out, .bias = c.attributes.bias};
  const Op op = linear_op(c.x, c.attributes);
  const auto inputs = linear_inputs(op);
  const Values sums = linear_reference(plain)(inputs);
  const Values y = activated(sums, c.attributes.relu);
  return {c.name, op,
          inputs, {{y, c.attributes.relu ? mask_of(y) : sums}},
          {},     c.attributes.gelu ? fused_gelu_tolerance : 2e-5};
}

/// The gradient of the sums before an activation, through the linear layer behind it.
OpCase through_case(const std::string& name, const Shape& x, std::int64_t out, bool relu) {
  TensorType features{DType::f32, x};
  const Op before = linear_op(features, {.out = x[-1], .relu = relu, .gelu = !relu, .keeps = true});
  const Op linear = linear_op(features, {.out = out, .bias = false});
  const Values sums = random_values(features, 21, -2, 2);
  const Values weight = random_values(linear.inputs[1], 22);
  const Values dy = random_values(linear.outputs[0], 23);
  const Reference forward = [linear_forward = linear_reference({name, features, {.out = out, .bias = false}}),
                             relu](const std::vector<Values>& inputs) {
    return linear_forward({activated(inputs[0], relu), inputs[1]});
  };
  return {name,
          linear_backward_input_op(linear, before),
          {dy, weight, relu ? mask_of(sums) : sums},
          {{finite_difference(forward, {sums, weight}, 0, dy)}},
          {},
          relu ? 2e-5 : fused_gelu_tolerance};
}

/// `gradient` added to what is there.
OpCase adding_case(const OpCase& gradient, const Op& op) {
  OpCase c{gradient.name + ", added up", op, gradient.inputs, {}};
  for (const Values& sums : gradient.expected.outputs) {
    const auto position = static_cast<int>(c.inputs.size());
    const Values earlier = random_values(static_cast<std::int64_t>(sums.size()), 31 + position);
    Values& expected = c.expected.changed_inputs[position];
    for (std::size_t i = 0; i < sums.size(); ++i) expected.push_back(earlier[i] + sums[i]);
    c.inputs.push_back(earlier);
  }
  return c;
}

/// The forward op without relu, whose gradient is an op of its own.
LinearCase without_relu(LinearCase c) {
  c.attributes.relu = false;
  return c;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const LinearCase& c : all_linear_cases()) {
    const Op op = linear_op(c.x, c.attributes);
    const auto inputs = linear_inputs(op);
    cases.push_back({c.name, op, inputs, {{linear_reference(c)(inputs)}}});
  }
  for (const LinearCase& c : keeping_cases()) cases.push_back(keeping_case(c));
  return cases;
}

std::vector<OpCase> linear_backward_input_cases() {
  std::vector<OpCase> cases;
  for (const LinearCase& given : all_linear_cases()) {
    const LinearCase c = without_relu(given);
    const Op op = linear_op(c.x, c.attributes);
    const auto inputs = linear_inputs(op);
    const Values dy = random_values(op.outputs[0], 9);
    cases.push_back({c.name,
                     linear_backward_input_op(linear_op(given.x, given.attributes)),
                     {dy, inputs[1]},
                     {{finite_difference(linear_reference(c), inputs, 0, dy)}}});
  }
  cases.push_back(through_case("through relu", {7, 128}, 11, true));
  cases.push_back(through_case("through relu, three dimensions", {2, 3, 256}, 5, true));
  cases.push_back(through_case("through gelu", {7, 16}, 11, false));
  cases.push_back(through_case("through gelu, three dimensions", {2, 3, 40}, 19, false));
  return cases;
}

std::vector<OpCase> linear_backward_weight_cases() {
  std::vector<OpCase> cases;
  for (const LinearCase& given : all_linear_cases()) {
    const LinearCase c = without_relu(given);
    const Op op = linear_op(c.x, c.attributes);
    const auto inputs = linear_inputs(op);
    const Values dy = random_values(op.outputs[0], 9);
    Expected expected{{finite_difference(linear_reference(c), inputs, 1, dy)}};
    if (c.attributes.bias) expected.outputs.push_back(finite_difference(linear_reference(c), inputs, 2, dy));
    cases.push_back({c.name, linear_backward_weight_op(op), {dy, inputs[0]}, expected});
    cases.push_back(adding_case(cases.back(), linear_add_backward_weight_op(op)));
  }
  return cases;
}

}  // namespace trainer
