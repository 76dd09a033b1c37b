#include <cmath>
#include <numbers>
#include <string>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct NamedGlu {
  std::string name;
  GluAttributes attributes;
  double (*f)(double);
};

std::vector<NamedGlu> named_glus() {
  return {
      {"silu", {Activation::silu}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"gelu", {Activation::gelu}, [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }},
      {"gelu tanh",
       {Activation::gelu, GeluApproximation::tanh},
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
       }},
  };
}

/// Of f(gate) · up, by halves of one operand or by two.
Reference glu_reference(double (*f)(double), std::int64_t columns) {
  return [f, width = static_cast<std::size_t>(columns)](const std::vector<Values>& inputs) {
    Values y;
    const bool packed = inputs.size() == 1;
    const std::size_t num_rows = inputs[0].size() / (packed ? 2 * width : width);
    for (std::size_t row = 0; row < num_rows; ++row)
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t at = row * (packed ? 2 * width : width) + i;
        y.push_back(f(inputs[0][at]) * (packed ? inputs[0][at + width] : inputs[1][at]));
      }
    return y;
  };
}

struct GluCase {
  std::string name;
  Op op;
  std::vector<Values> inputs;
  Reference reference;
};

std::vector<GluCase> forward_glus() {
  std::vector<GluCase> all;
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{2, 5, 16}, Shape{2, 3, 5, 6}, Shape{3, 2049}})
    for (const NamedGlu& glu : named_glus()) {
      const TensorType half{DType::f32, shape};
      TensorType whole = half;
      whole.shape[-1] *= 2;
      const Reference reference = glu_reference(glu.f, shape[-1]);
      all.push_back({glu.name + " of two " + half.to_string(),
                     glu_op(half, half, glu.attributes),
                     {random_values(half, 1, -4, 4), random_values(half, 2)},
                     reference});
      all.push_back({glu.name + " of " + whole.to_string(),
                     packed_glu_op(whole, glu.attributes),
                     {random_values(whole, 3, -4, 4)},
                     reference});
    }
  return all;
}

}  // namespace

std::vector<OpCase> glu_cases() {
  std::vector<OpCase> cases;
  for (const GluCase& each : forward_glus())
    cases.push_back({each.name, each.op, each.inputs, {{each.reference(each.inputs)}}});
  return cases;
}

std::vector<OpCase> glu_backward_cases() {
  std::vector<OpCase> cases;
  for (const GluCase& each : forward_glus()) {
    const Values dy = random_values(each.op.outputs[0], 4);
    Expected expected;
    for (std::size_t i = 0; i < each.inputs.size(); ++i)
      expected.outputs.push_back(finite_difference(each.reference, each.inputs, i, dy));
    std::vector<Values> inputs = {dy};
    inputs.insert(inputs.end(), each.inputs.begin(), each.inputs.end());
    cases.push_back({each.name, glu_backward_op(each.op), inputs, expected});
  }
  return cases;
}

}  // namespace trainer
