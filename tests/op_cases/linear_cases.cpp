#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct LinearCase {
  std::string name;
  TensorType x;
  LinearAttributes attributes;
};

std::vector<LinearCase> all_cases() {
  const DType f32 = DType::f32;
  return {
      {"one number", {f32, {1, 1}}, {.out = 1}},
      {"primes", {f32, {7, 13}}, {.out = 11}},
      {"primes, relu", {f32, {7, 13}}, {.out = 11, .relu = true}},
      {"no bias", {f32, {3, 5}}, {.out = 2, .bias = false}},
      {"no bias, relu", {f32, {3, 5}}, {.out = 2, .bias = false, .relu = true}},
      {"three dimensions", {f32, {2, 3, 17}}, {.out = 19}},
      {"wide", {f32, {5, 70}}, {.out = 131}},
      {"many rows", {f32, {67, 3}}, {.out = 33}},
  };
}

/// inputs: x (rows, in), W (out, in)[, b]
Reference reference_of(const LinearCase& c) {
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

std::vector<Values> inputs_of(const Op& op) {
  std::vector<Values> inputs;
  for (const TensorType& type : op.inputs) inputs.push_back(random_values(type, 1 + static_cast<int>(inputs.size())));
  return inputs;
}

/// The forward op without relu, whose gradient is an op of its own.
LinearCase without_relu(LinearCase c) {
  c.attributes.relu = false;
  return c;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const LinearCase& c : all_cases()) {
    const Op op = linear_op(c.x, c.attributes);
    const auto inputs = inputs_of(op);
    cases.push_back({c.name, op, inputs, {{reference_of(c)(inputs)}}});
  }
  return cases;
}

std::vector<OpCase> linear_backward_input_cases() {
  std::vector<OpCase> cases;
  for (const LinearCase& given : all_cases()) {
    const LinearCase c = without_relu(given);
    const Op op = linear_op(c.x, c.attributes);
    const auto inputs = inputs_of(op);
    const Values dy = random_values(op.outputs[0], 9);
    cases.push_back({c.name,
                     linear_backward_input_op(linear_op(given.x, given.attributes)),
                     {dy, inputs[1]},
                     {{finite_difference(reference_of(c), inputs, 0, dy)}}});
  }
  return cases;
}

std::vector<OpCase> linear_backward_weight_cases() {
  std::vector<OpCase> cases;
  for (const LinearCase& given : all_cases()) {
    const LinearCase c = without_relu(given);
    const Op op = linear_op(c.x, c.attributes);
    const auto inputs = inputs_of(op);
    const Values dy = random_values(op.outputs[0], 9);
    Expected expected{{finite_difference(reference_of(c), inputs, 1, dy)}};
    if (c.attributes.bias) expected.outputs.push_back(finite_difference(reference_of(c), inputs, 2, dy));
    cases.push_back({c.name, linear_backward_weight_op(op), {dy, inputs[0]}, expected});
  }
  return cases;
}

}  // namespace trainer
