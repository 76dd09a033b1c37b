#include "tests/op_cases/conv_transpose2d_cases.h"

namespace trainer {

namespace {

struct TransposedCase {
  std::string name;
  TensorType x;
  ConvTranspose2dOptions options;
};

std::vector<TransposedCase> all_transposed_cases() {
  const DType f32 = DType::f32;
  return {
      {"one number", {f32, {1, 1, 1, 1}}, {.out = 1}},
      {"twice the size", {f32, {2, 3, 4, 5}}, {.out = 3, .kernel = {2, 2}, .stride = {2, 2}}},
      {"twice the size of 16 channels",
       {f32, {1, 3, 3, 16}},
       {.out = 16, .kernel = {2, 2}, .stride = {2, 2}, .bias = false}},
      {"windows overlap", {f32, {2, 3, 4, 3}}, {.out = 4, .kernel = {4, 4}, .stride = {2, 2}, .padding = {1, 1}}},
      {"a row and a column more",
       {f32, {1, 4, 3, 2}},
       {.out = 5, .kernel = {3, 3}, .stride = {2, 3}, .padding = {1, 1}, .output_padding = {1, 2}}},
      {"gaps between windows",
       {f32, {1, 3, 2, 4}},
       {.out = 8, .kernel = {1, 2}, .stride = {3, 3}, .output_padding = {2, 0}}},
      {"dilated", {f32, {1, 4, 5, 2}}, {.out = 3, .kernel = {3, 2}, .padding = {2, 1}, .dilation = {2, 3}}},
      {"two groups", {f32, {2, 3, 3, 6}}, {.out = 4, .kernel = {3, 3}, .stride = {2, 1}, .groups = 2}},
      {"each channel alone", {f32, {1, 4, 4, 7}}, {.out = 7, .kernel = {3, 3}, .stride = {2, 2}, .groups = 7}},
      {"padded to one pixel", {f32, {2, 3, 1, 3}}, {.out = 2, .kernel = {3, 3}, .padding = {2, 1}}},
      {"sums for threads", {f32, {2, 16, 15, 8}}, {.out = 33, .kernel = {2, 2}, .stride = {2, 2}}},
  };
}

Op transposed_op(const TransposedCase& c) { return conv_transpose2d_op(c.x, c.options); }

/// inputs: x, W[, b]: by what each element of x adds to y.
Reference transposed_reference(const TransposedCase& c) {
  return [c, y = transposed_op(c).outputs[0].shape](const std::vector<Values>& inputs) {
    const Shape& x = c.x.shape;
    const ConvTranspose2dOptions& o = c.options;
    Values result(static_cast<std::size_t>(y.num_elements()));
    const std::int64_t in_each = x[3] / o.groups, out_each = o.out / o.groups;
    for (std::int64_t n = 0; n < x[0]; ++n)
      for (std::int64_t h = 0; h < x[1]; ++h)
        for (std::int64_t w = 0; w < x[2]; ++w)
          for (std::int64_t in = 0; in < x[3]; ++in)
            for (std::int64_t i = 0; i < o.kernel[0]; ++i)
              for (std::int64_t j = 0; j < o.kernel[1]; ++j) {
                const std::int64_t row = h * o.stride[0] - o.padding[0] + i * o.dilation[0];
                const std::int64_t column = w * o.stride[1] - o.padding[1] + j * o.dilation[1];
                if (row < 0 || column < 0 || row >= y[1] || column >= y[2]) continue;
                for (std::int64_t out = 0; out < out_each; ++out)
                  result[static_cast<std::size_t>(((n * y[1] + row) * y[2] + column) * y[3] + in / in_each * out_each +
                                                  out)] +=
                      inputs[0][static_cast<std::size_t>(((n * x[1] + h) * x[2] + w) * x[3] + in)] *
                      inputs[1][static_cast<std::size_t>(((in * o.kernel[0] + i) * o.kernel[1] + j) * out_each + out)];
              }
    for (std::size_t i = 0; i < result.size() && o.bias; ++i)
      result[i] += inputs[2][i % static_cast<std::size_t>(o.out)];
    return result;
  };
}

std::vector<Values> transposed_inputs(const Op& op) {
  std::vector<Values> inputs;
  for (const TensorType& type : op.inputs) inputs.push_back(random_values(type, 1 + static_cast<int>(inputs.size())));
  return inputs;
}

}  // namespace

std::vector<OpCase> conv_transpose2d_cases() {
  std::vector<OpCase> cases;
  for (const TransposedCase& c : all_transposed_cases()) {
    const Op op = transposed_op(c);
    const auto inputs = transposed_inputs(op);
    cases.push_back({c.name, op, inputs, {{transposed_reference(c)(inputs)}}});
  }
  return cases;
}

std::vector<OpCase> conv_transpose2d_backward_input_cases() {
  std::vector<OpCase> cases;
  for (const TransposedCase& c : all_transposed_cases()) {
    const Op op = transposed_op(c);
    const auto inputs = transposed_inputs(op);
    const Values dy = random_values(op.outputs[0], 9);
    cases.push_back({"transposed, " + c.name,
                     conv_transpose2d_backward_input_op(op),
                     {dy, inputs[1]},
                     {{finite_difference(transposed_reference(c), inputs, 0, dy)}}});
  }
  return cases;
}

std::vector<OpCase> conv_transpose2d_backward_weight_cases() {
  std::vector<OpCase> cases;
  for (const TransposedCase& c : all_transposed_cases()) {
    const Op op = transposed_op(c);
    const auto inputs = transposed_inputs(op);
    const Values dy = random_values(op.outputs[0], 9);
    Expected expected{{finite_difference(transposed_reference(c), inputs, 1, dy)}};
    if (c.options.bias) expected.outputs.push_back(finite_difference(transposed_reference(c), inputs, 2, dy));
    cases.push_back({c.name, conv_transpose2d_backward_weight_op(op), {dy, inputs[0]}, expected});
    cases.back().tolerance = 1e-4;  // sums over some thousand pixels
  }
  return cases;
}

}  // namespace trainer
