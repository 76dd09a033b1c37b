#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct Factors {
  TensorType x, factor;
};

std::vector<Factors> factors() {
  const DType f32 = DType::f32;
  std::vector<Factors> all;
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{2, 3, 5, 7}, Shape{131, 257}})
    all.push_back({{f32, shape}, {f32, shape}});
  for (const Shape& x : {Shape{1, 1, 1, 1}, Shape{3, 1, 1, 5}, Shape{2, 3, 5, 7}, Shape{2, 13, 11, 16},
                         Shape{3, 31, 33, 8}, Shape{1, 5, 3, 130}}) {
    all.push_back({{f32, x}, {f32, {x[0], x[3]}}});
    if (x[1] * x[2] > 1) all.push_back({{f32, x}, {f32, {x[0], 1, 1, x[3]}}});
  }
  return all;
}

std::string name(const Factors& of) { return of.x.to_string() + " · " + of.factor.shape.to_string(); }

Reference product_of(const Factors& of) {
  return [of](const std::vector<Values>& inputs) {
    Values y = inputs[0];
    const bool is_whole = of.factor.num_elements() == of.x.num_elements();
    const std::int64_t channels = of.x.shape[-1], of_image = of.x.num_elements() / of.x.shape[0];
    for (std::int64_t i = 0; i < of.x.num_elements(); ++i)
      y[static_cast<std::size_t>(i)] *=
          inputs[1][static_cast<std::size_t>(is_whole ? i : i / of_image * channels + i % channels)];
    return y;
  };
}

}  // namespace

std::vector<OpCase> multiply_cases() {
  std::vector<OpCase> cases;
  for (const Factors& of : factors()) {
    const Values x = random_values(of.x, 1), factor = random_values(of.factor, 2);
    cases.push_back({name(of), multiply_op(of.x, of.factor), {x, factor}, {{product_of(of)({x, factor})}}});
    cases.back().tolerance = 1e-6;
  }
  return cases;
}

std::vector<OpCase> multiply_backward_gate_cases() {
  std::vector<OpCase> cases;
  for (const Factors& of : factors()) {
    if (!is_gate(of.x, of.factor)) continue;
    const Values x = random_values(of.x, 1), gate = random_values(of.factor, 2), dy = random_values(of.x, 3);
    cases.push_back({name(of),
                     multiply_backward_gate_op(multiply_op(of.x, of.factor)),
                     {dy, x},
                     {{finite_difference(product_of(of), {x, gate}, 1, dy)}}});
  }
  return cases;
}

}  // namespace trainer
