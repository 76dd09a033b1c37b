#include "tests/cpu/op_case.h"

namespace trainer {

namespace {

struct ConvolutionCase {
  std::string name;
  TensorType x;
  Conv2dAttributes attributes;
};

std::vector<ConvolutionCase> all_cases() {
  const DType f32 = DType::f32;
  return {
      {"one number", {f32, {1, 1, 1, 1}}, {.out = 1}},
      {"3x3 padded", {f32, {2, 5, 5, 3}}, {.out = 4, .kernel = {3, 3}, .padding = {1, 1}}},
      {"3x3 padded, relu", {f32, {2, 5, 5, 3}}, {.out = 4, .kernel = {3, 3}, .padding = {1, 1}, .relu = true}},
      {"one channel to 32", {f32, {2, 6, 7, 1}}, {.out = 32, .kernel = {3, 3}, .padding = {1, 1}}},
      {"16 to 16", {f32, {1, 4, 4, 16}}, {.out = 16, .kernel = {3, 3}, .padding = {1, 1}, .relu = true}},
      {"stride 2", {f32, {2, 7, 5, 3}}, {.out = 5, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
      {"stride leaves a rest", {f32, {1, 8, 6, 2}}, {.out = 3, .kernel = {3, 3}, .stride = {2, 3}}},
      {"1x1 stride 2", {f32, {2, 5, 5, 16}}, {.out = 32, .stride = {2, 2}, .bias = false}},
      {"kernel of two shapes", {f32, {1, 5, 7, 3}}, {.out = 2, .kernel = {1, 4}, .padding = {0, 2}}},
      {"dilated", {f32, {1, 9, 8, 2}}, {.out = 3, .kernel = {3, 3}, .padding = {2, 1}, .dilation = {2, 3}}},
      {"two groups", {f32, {2, 4, 5, 6}}, {.out = 4, .kernel = {3, 3}, .padding = {1, 1}, .groups = 2}},
      {"depthwise", {f32, {2, 5, 5, 7}}, {.out = 7, .kernel = {3, 3}, .padding = {1, 1}, .groups = 7}},
      {"depthwise of 16, no bias",
       {f32, {1, 5, 5, 16}},
       {.out = 16, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 16, .bias = false}},
      {"Winograd", {f32, {1, 17, 18, 32}}, {.out = 48, .kernel = {3, 3}, .padding = {1, 1}}},
      {"Winograd, unpadded, no bias, relu",
       {f32, {5, 10, 11, 48}},
       {.out = 32, .kernel = {3, 3}, .bias = false, .relu = true}},
      {"no bias, relu", {f32, {3, 3, 3, 5}}, {.out = 13, .kernel = {2, 2}, .bias = false, .relu = true}},
  };
}

/// inputs: x (N, H, W, C), W (out, C/groups, kh, kw)[, b]
Reference reference_of(const ConvolutionCase& c) {
  return [x = c.x.shape, y = conv2d_op(c.x, c.attributes).outputs[0].shape,
          a = c.attributes](const std::vector<Values>& inputs) {
    const std::int64_t in_each = x[3] / a.groups;
    const std::int64_t out_each = a.out / a.groups;
    Values result;
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t row = 0; row < y[1]; ++row)
        for (std::int64_t column = 0; column < y[2]; ++column)
          for (std::int64_t out = 0; out < a.out; ++out) {
            double sum = a.bias ? inputs[2][static_cast<std::size_t>(out)] : 0.0;
            for (std::int64_t in = 0; in < in_each; ++in)
              for (std::int64_t i = 0; i < a.kernel[0]; ++i)
                for (std::int64_t j = 0; j < a.kernel[1]; ++j) {
                  const std::int64_t h = row * a.stride[0] - a.padding[0] + i * a.dilation[0];
                  const std::int64_t w = column * a.stride[1] - a.padding[1] + j * a.dilation[1];
                  if (h < 0 || w < 0 || h >= x[1] || w >= x[2]) continue;
                  const std::int64_t channel = out / out_each * in_each + in;
                  sum +=
                      inputs[0][static_cast<std::size_t>(((n * x[1] + h) * x[2] + w) * x[3] + channel)] *
                      inputs[1][static_cast<std::size_t>(((out * in_each + in) * a.kernel[0] + i) * a.kernel[1] + j)];
                }
            result.push_back(a.relu && sum < 0 ? 0 : sum);
          }
    return result;
  };
}

/// Winograd's transforms lose about a digit of sums that reach 20.
double tolerance_of(const ConvolutionCase& c) { return c.x.shape[3] >= 32 && c.attributes.out >= 32 ? 1e-4 : 2e-5; }

std::vector<Values> inputs_of(const Op& op) {
  std::vector<Values> inputs;
  for (const TensorType& type : op.inputs) inputs.push_back(random_values(type, 1 + static_cast<int>(inputs.size())));
  return inputs;
}

/// The forward op without relu, whose gradient is an op of its own.
ConvolutionCase without_relu(ConvolutionCase c) {
  c.attributes.relu = false;
  return c;
}

}  // namespace

std::vector<OpCase> conv2d_cases() {
  std::vector<OpCase> cases;
  for (const ConvolutionCase& c : all_cases()) {
    const Op op = conv2d_op(c.x, c.attributes);
    const auto inputs = inputs_of(op);
    cases.push_back({c.name, op, inputs, {{reference_of(c)(inputs)}}, {}, tolerance_of(c)});
  }
  return cases;
}

std::vector<OpCase> conv2d_backward_input_cases() {
  std::vector<OpCase> cases;
  for (const ConvolutionCase& given : all_cases()) {
    const ConvolutionCase c = without_relu(given);
    const Op op = conv2d_op(c.x, c.attributes);
    const auto inputs = inputs_of(op);
    const Values dy = random_values(op.outputs[0], 9);
    cases.push_back({c.name,
                     conv2d_backward_input_op(conv2d_op(given.x, given.attributes)),
                     {dy, inputs[1]},
                     {{finite_difference(reference_of(c), inputs, 0, dy)}},
                     {},
                     tolerance_of(c)});
  }
  return cases;
}

std::vector<OpCase> conv2d_backward_weight_cases() {
  std::vector<OpCase> cases;
  for (const ConvolutionCase& given : all_cases()) {
    const ConvolutionCase c = without_relu(given);
    const Op op = conv2d_op(c.x, c.attributes);
    const auto inputs = inputs_of(op);
    const Values dy = random_values(op.outputs[0], 9);
    Expected expected{{finite_difference(reference_of(c), inputs, 1, dy)}};
    if (c.attributes.bias) expected.outputs.push_back(finite_difference(reference_of(c), inputs, 2, dy));
    cases.push_back({c.name,
                     conv2d_backward_weight_op(conv2d_op(given.x, given.attributes)),
                     {dy, inputs[0]},
                     expected,
                     {},
                     tolerance_of(c)});
  }
  return cases;
}

}  // namespace trainer
