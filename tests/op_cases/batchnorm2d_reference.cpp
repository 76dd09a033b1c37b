#include "tests/op_cases/batchnorm2d_reference.h"

#include <algorithm>
#include <cmath>

namespace trainer {

namespace {

/// Of each channel, f(x), as f32.
template <typename Function>
Values sums_of(const TensorType& type, const Values& x, Function&& f) {
  Values sums(at(type.shape[-1]));
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += f(x[i]);
  for (double& sum : sums) sum = static_cast<double>(static_cast<float>(sum));
  return sums;
}

}  // namespace

Moments moments_of(const Values& x, std::int64_t first, std::int64_t stride, std::int64_t count) {
  Moments m;
  for (std::int64_t i = 0; i < count; ++i) m.mean += x[at(first + i * stride)] / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i)
    m.variance += std::pow(x[at(first + i * stride)] - m.mean, 2) / static_cast<double>(count);
  return m;
}

Values means_of(const std::vector<Moments>& moments) {
  Values means;
  for (const Moments& m : moments) means.push_back(m.mean);
  return means;
}
Values rstds_of(const std::vector<Moments>& moments, double eps) {
  Values rstds;
  for (const Moments& m : moments) rstds.push_back(1 / std::sqrt(m.variance + eps));
  return rstds;
}
Values as_f32(Values values) {
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  return values;
}

std::vector<BatchNormCase> batchnorm_cases() {
  const DType f32 = DType::f32;
  return {
      {"one channel", {f32, {2, 1, 1, 1}}, {}},
      {"odd", {f32, {3, 5, 7, 3}}, {}},
      {"odd, relu", {f32, {3, 5, 7, 3}}, {.relu = true}},
      {"no weight", {f32, {2, 3, 3, 5}}, {.affine = false}},
      {"no weight, relu", {f32, {2, 3, 3, 5}}, {.affine = false, .relu = true}},
      {"odd, relu6", {f32, {3, 5, 7, 3}}, {.relu = true, .capped = true}},
      {"no weight, relu6", {f32, {2, 3, 3, 5}}, {.affine = false, .relu = true, .capped = true}},
      {"64 channels, relu6", {f32, {2, 2, 3, 64}}, {.relu = true, .capped = true}},
      {"67 channels, relu6", {f32, {2, 2, 2, 67}}, {.relu = true, .capped = true}},
      {"many rows, relu6", {f32, {5, 29, 17, 2}}, {.relu = true, .capped = true}},
      {"64 channels", {f32, {2, 2, 3, 64}}, {.eps = 1e-3, .momentum = 0.3, .relu = true}},
      {"67 channels", {f32, {2, 2, 2, 67}}, {.relu = true}},
      {"many rows", {f32, {5, 29, 17, 2}}, {}},
      {"mean large against the deviation", {f32, {4, 5, 5, 2}}, {}, 1000},
      {"two rows of one", {f32, {2, 1}}, {}},
      {"rows of features, relu", {f32, {7, 67}}, {.relu = true}},
      {"rows of features, no weight", {f32, {9, 5}}, {.affine = false}},
      {"rows of features, addend", {f32, {5, 19}}, {.relu = true, .adds = true}},
      {"three dimensions", {f32, {3, 5, 11}}, {.eps = 1e-3, .momentum = 0.3}},
      {"addend, two numbers", {f32, {2, 1, 1, 1}}, {.adds = true}},
      {"addend, odd", {f32, {3, 5, 7, 3}}, {.adds = true}},
      {"addend, odd, relu", {f32, {3, 5, 7, 3}}, {.relu = true, .adds = true}},
      {"addend, no weight", {f32, {2, 3, 3, 5}}, {.affine = false, .adds = true}},
      {"addend, no weight, relu", {f32, {2, 3, 3, 5}}, {.affine = false, .relu = true, .adds = true}},
      {"addend, 67 channels", {f32, {2, 2, 2, 67}}, {.relu = true, .adds = true}},
      {"addend, many rows", {f32, {5, 29, 17, 2}}, {.relu = true, .adds = true}},
      {"addend, mean large against the deviation", {f32, {4, 5, 5, 2}}, {.relu = true, .adds = true}, 1000},
  };
}

Op forward_op(const BatchNormCase& c) { return batchnorm2d_op(c.x, c.attributes); }

std::vector<Values> inputs_of(const BatchNormCase& c) {
  std::vector<Values> inputs = {random_values(c.x, 1)};
  for (double& value : inputs[0]) value = static_cast<double>(static_cast<float>(value + c.offset));
  inputs.push_back(random_values(c.x.shape[-1], 2));
  inputs.push_back(random_values(c.x.shape[-1], 3, 0.5, 2));
  if (c.attributes.affine) {
    // So large that a third of what ReLU6 is applied to is above 6, or 0.
    const double large = c.attributes.capped ? 8 : 1;
    inputs.push_back(random_values(c.x.shape[-1], 4, 0.5 * large, 1.5 * large));
    inputs.push_back(random_values(c.x.shape[-1], 5));
  }
  if (c.attributes.adds) inputs.push_back(random_values(c.x, 6));
  if (c.attributes.given_sums) {
    inputs.push_back(sums_of(c.x, inputs[0], [](double x) { return x; }));
    inputs.push_back(sums_of(c.x, inputs[0], [](double x) { return x * x; }));
  }
  return inputs;
}

std::int64_t rows_of(const BatchNormCase& c) { return c.x.num_elements() / c.x.shape[-1]; }

Values apply_batchnorm(const BatchNormCase& c, const std::vector<Values>& inputs, const std::vector<Moments>& moments) {
  Values y;
  const std::int64_t channels = c.x.shape[-1];
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    const std::size_t channel = i % at(channels);
    double value = (inputs[0][i] - moments[channel].mean) / std::sqrt(moments[channel].variance + c.attributes.eps);
    if (c.attributes.affine) value = value * inputs[3][channel] + inputs[4][channel];
    if (c.attributes.adds) value += inputs[at(addend_position(c.attributes))][i];
    if (c.attributes.capped) value = std::min(value, 6.0);
    y.push_back(c.attributes.relu && value < 0 ? 0 : value);
  }
  return y;
}

std::vector<Moments> batch_moments(const BatchNormCase& c, const Values& x) {
  std::vector<Moments> moments;
  for (std::int64_t channel = 0; channel < c.x.shape[-1]; ++channel)
    moments.push_back(moments_of(x, channel, c.x.shape[-1], rows_of(c)));
  return moments;
}

Reference training_reference(const BatchNormCase& c) {
  return [c](const std::vector<Values>& inputs) { return apply_batchnorm(c, inputs, batch_moments(c, inputs[0])); };
}

}  // namespace trainer
