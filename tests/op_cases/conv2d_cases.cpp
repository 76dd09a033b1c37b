#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/cpu/cpu_device.h"
#include "tests/op_cases/conv_transpose2d_cases.h"
#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct ConvolutionCase {
  std::string name;
  TensorType x;
  Conv2dAttributes attributes;
  bool is_large = false;  ///< too large for central differences; large enough for Winograd
};

std::vector<ConvolutionCase> all_convolution_cases() {
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
      {"depthwise 5x5, relu",
       {f32, {2, 6, 7, 16}},
       {.out = 16, .kernel = {5, 5}, .padding = {2, 2}, .groups = 16, .relu = true}},
      {"depthwise of two shapes and steps",
       {f32, {1, 7, 6, 40}},
       {.out = 40, .kernel = {5, 2}, .stride = {1, 3}, .padding = {1, 1}, .groups = 40, .bias = false, .relu = true}},
      {"depthwise dilated",
       {f32, {1, 9, 8, 8}},
       {.out = 8, .kernel = {3, 2}, .padding = {2, 1}, .dilation = {2, 3}, .groups = 8}},
      {"depthwise with a channel multiplier",
       {f32, {2, 5, 4, 3}},
       {.out = 9, .kernel = {3, 3}, .stride = {3, 2}, .padding = {1, 1}, .groups = 3}},
      {"depthwise 6x6, which the library computes",
       {f32, {1, 6, 7, 8}},
       {.out = 8, .kernel = {6, 6}, .padding = {1, 1}, .groups = 8}},
      {"almost enough for Winograd", {f32, {1, 17, 18, 32}}, {.out = 48, .kernel = {3, 3}, .padding = {1, 1}}},
      {"Winograd", {f32, {4, 21, 22, 128}}, {.out = 128, .kernel = {3, 3}, .padding = {1, 1}}, true},
      {"Winograd, unpadded, no bias, relu",
       {f32, {20, 18, 17, 96}},
       {.out = 64, .kernel = {3, 3}, .bias = false, .relu = true},
       true},
      {"no bias, relu", {f32, {3, 3, 3, 5}}, {.out = 13, .kernel = {2, 2}, .bias = false, .relu = true}},
  };
}

/// Calls visit(o, i, k) for each product x[i] · W[k] that is part of y[o]; the shapes are x (N, H, W, C),
/// W (out, kh, kw, C/groups), y (N, H, W, out).
template <typename Visit>
void for_each_product(const ConvolutionCase& c, Visit&& visit) {
  const Shape& x = c.x.shape;
  const Shape y = conv2d_op(c.x, c.attributes).outputs[0].shape;
  const Conv2dAttributes& a = c.attributes;
  const std::int64_t in_each = x[3] / a.groups;
  const std::int64_t out_each = a.out / a.groups;
  std::size_t o = 0;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t row = 0; row < y[1]; ++row)
      for (std::int64_t column = 0; column < y[2]; ++column)
        for (std::int64_t out = 0; out < a.out; ++out, ++o)
          for (std::int64_t i = 0; i < a.kernel[0]; ++i)
            for (std::int64_t j = 0; j < a.kernel[1]; ++j) {
              const std::int64_t h = row * a.stride[0] - a.padding[0] + i * a.dilation[0];
              const std::int64_t w = column * a.stride[1] - a.padding[1] + j * a.dilation[1];
              if (h < 0 || w < 0 || h >= x[1] || w >= x[2]) continue;
              for (std::int64_t in = 0; in < in_each; ++in)
                visit(o, static_cast<std::size_t>(((n * x[1] + h) * x[2] + w) * x[3] + out / out_each * in_each + in),
                      static_cast<std::size_t>(((out * a.kernel[0] + i) * a.kernel[1] + j) * in_each + in));
            }
}

/// inputs: x, W[, b]
Reference reference_of(const ConvolutionCase& c) {
  return [c, num_outputs = conv2d_op(c.x, c.attributes).outputs[0].num_elements()](const std::vector<Values>& inputs) {
    Values result(static_cast<std::size_t>(num_outputs));
    if (c.attributes.bias)
      for (std::size_t o = 0; o < result.size(); ++o)
        result[o] = inputs[2][o % static_cast<std::size_t>(c.attributes.out)];
    for_each_product(c, [&](std::size_t o, std::size_t i, std::size_t k) { result[o] += inputs[0][i] * inputs[1][k]; });
    if (c.attributes.relu)
      for (double& value : result) value = std::max(value, 0.0);
    return result;
  };
}

/// d(Σ dy · y) / d(inputs[position]) without relu: where central differences take too long, by y being linear in each
/// input.
Values gradient_of(const ConvolutionCase& c, const std::vector<Values>& inputs, std::size_t position,
                   const Values& dy) {
  if (!c.is_large) return finite_difference(reference_of(c), inputs, position, dy);
  Values result(inputs[position].size());
  if (position == 2)
    for (std::size_t o = 0; o < dy.size(); ++o) result[o % result.size()] += dy[o];
  else
    for_each_product(c, [&](std::size_t o, std::size_t i, std::size_t k) {
      if (position == 0)
        result[i] += dy[o] * inputs[1][k];
      else
        result[k] += dy[o] * inputs[0][i];
    });
  return result;
}

/// Winograd's transforms lose about a digit of sums that reach 20.
double tolerance_of(const ConvolutionCase& c) { return c.is_large ? 1e-4 : 2e-5; }

std::vector<Values> conv2d_inputs(const Op& op) {
  std::vector<Values> inputs;
  for (const TensorType& type : op.inputs) inputs.push_back(random_values(type, 1 + static_cast<int>(inputs.size())));
  return inputs;
}

/// The forward op without relu, whose gradient is an op of its own.
ConvolutionCase without_relu(ConvolutionCase c) {
  c.attributes.relu = false;
  return c;
}

/// Only Winograd's kernels reorder both images, in the workspace.
bool uses_winograd(const Device& device, const Op& op, const ConvolutionCase& c) {
  return device.workspace_bytes(op) > c.x.num_bytes() + conv2d_op(c.x, c.attributes).outputs[0].num_bytes();
}

bool has_winograd() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

ConvolutionCase square_3x3(std::int64_t batch, std::int64_t side, std::int64_t channels, std::int64_t out) {
  return {"", {DType::f32, {batch, side, side, channels}}, {.out = out, .kernel = {3, 3}, .padding = {1, 1}}};
}

}  // namespace

std::vector<OpCase> conv2d_cases() {
  std::vector<OpCase> cases;
  for (const ConvolutionCase& c : all_convolution_cases()) {
    const Op op = conv2d_op(c.x, c.attributes);
    const auto inputs = conv2d_inputs(op);
    cases.push_back({c.name, op, inputs, {{reference_of(c)(inputs)}}, {}, tolerance_of(c)});
  }
  for (OpCase& c : conv_transpose2d_backward_input_cases()) cases.push_back(std::move(c));
  return cases;
}

std::vector<OpCase> conv2d_backward_input_cases() {
  std::vector<OpCase> cases;
  for (const ConvolutionCase& given : all_convolution_cases()) {
    const ConvolutionCase c = without_relu(given);
    const Op op = conv2d_op(c.x, c.attributes);
    const auto inputs = conv2d_inputs(op);
    const Values dy = random_values(op.outputs[0], 9);
    cases.push_back({c.name,
                     conv2d_backward_input_op(conv2d_op(given.x, given.attributes)),
                     {dy, inputs[1]},
                     {{gradient_of(c, inputs, 0, dy)}},
                     {},
                     tolerance_of(c)});
  }
  return cases;
}

std::vector<OpCase> conv2d_backward_weight_cases() {
  std::vector<OpCase> cases;
  for (const ConvolutionCase& given : all_convolution_cases()) {
    const ConvolutionCase c = without_relu(given);
    const Op op = conv2d_op(c.x, c.attributes);
    const auto inputs = conv2d_inputs(op);
    const Values dy = random_values(op.outputs[0], 9);
    Expected expected{{gradient_of(c, inputs, 1, dy)}};
    if (c.attributes.bias) expected.outputs.push_back(gradient_of(c, inputs, 2, dy));
    cases.push_back({c.name,
                     conv2d_backward_weight_op(conv2d_op(given.x, given.attributes)),
                     {dy, inputs[0]},
                     expected,
                     {},
                     tolerance_of(c)});
  }
  return cases;
}

TEST_CASE("3x3 convolutions use Winograd where it saves enough for its workspace, in every direction") {
  const auto device = make_cpu_device(2);
  const auto check = [&](const ConvolutionCase& c, bool expected) {
    const Op op = conv2d_op(c.x, c.attributes);
    INFO(c.name << " " << c.x.to_string() << " to " << c.attributes.out << " channels");
    CHECK(uses_winograd(*device, op, c) == expected);
    CHECK(uses_winograd(*device, conv2d_backward_input_op(op), c) == expected);
    // Which weight gradients of ragged tiles oneDNN offers depends on the caches of the machine.
    if (!c.is_large) CHECK(uses_winograd(*device, conv2d_backward_weight_op(op), c) == expected);
  };
  for (const ConvolutionCase& c : all_convolution_cases())
    if (c.is_large) check(c, has_winograd());
  check(square_3x3(64, 28, 32, 64), has_winograd());
  check(square_3x3(64, 32, 64, 64), has_winograd());
  check(square_3x3(64, 16, 128, 128), has_winograd());
  check(square_3x3(64, 8, 256, 256), has_winograd());
  check(square_3x3(64, 8, 32, 64), false);
  check(square_3x3(256, 32, 64, 64), false);  // would take 135 MiB
  check(square_3x3(1, 18, 32, 48), false);
  ConvolutionCase strided = square_3x3(64, 32, 64, 64);
  strided.attributes.stride = {2, 2};
  check(strided, false);
}

}  // namespace trainer
