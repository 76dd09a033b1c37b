#include <cmath>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct GroupNormCase {
  std::string name;
  TensorType x;
  GroupNormAttributes attributes;
  double offset = 0;  ///< added to x: a mean that is large against the deviation
};

/// Few samples and many, of one row and of more, whose groups are one channel, a few, and all of them.
std::vector<GroupNormCase> groupnorm_shapes() {
  const DType f32 = DType::f32;
  return {
      {"two numbers", {f32, {1, 2}}, {}},
      {"odd", {f32, {3, 5, 7, 6}}, {.groups = 2}},
      {"odd, relu", {f32, {3, 5, 7, 6}}, {.groups = 3, .relu = true}},
      {"no weight", {f32, {2, 3, 3, 5}}, {.affine = false}},
      {"no weight, relu", {f32, {2, 3, 3, 5}}, {.groups = 5, .affine = false, .relu = true}},
      {"groups of one channel", {f32, {2, 5, 3, 9}}, {.groups = 9, .eps = 1e-3}},
      {"rows of features", {f32, {7, 12}}, {.groups = 4, .relu = true}},
      {"many samples", {f32, {67, 3}}, {}},
      {"many samples of several rows, relu", {f32, {18, 2, 3, 4}}, {.groups = 2, .relu = true}},
      {"three dimensions", {f32, {2, 9, 15}}, {.groups = 3, .eps = 1e-3}},
      {"67 channels", {f32, {2, 2, 2, 67}}, {.groups = 67, .relu = true}},
      {"many rows", {f32, {2, 29, 43, 4}}, {.groups = 2}},
      {"a wide group", {f32, {2, 1, 3, 1030}}, {}},
      {"mean large against the deviation", {f32, {2, 5, 5, 4}}, {.groups = 2}, 1000},
  };
}

std::size_t place(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Of each sample and group.
struct GroupMoments {
  Values means, rstds;
};

GroupMoments group_moments(const GroupNormCase& c, const Values& x) {
  const std::int64_t samples = c.x.shape[0], channels = c.x.shape[-1], groups = c.attributes.groups;
  const std::int64_t rows = c.x.num_elements() / (samples * channels), width = channels / groups;
  GroupMoments moments;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    for (std::int64_t g = 0; g < groups; ++g) {
      Values numbers;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < width; ++i)
          numbers.push_back(x[place((sample * rows + row) * channels + g * width + i)]);
      double mean = 0, variance = 0;
      for (const double number : numbers) mean += number / static_cast<double>(numbers.size());
      for (const double number : numbers) variance += std::pow(number - mean, 2) / static_cast<double>(numbers.size());
      moments.means.push_back(mean);
      moments.rstds.push_back(1 / std::sqrt(variance + c.attributes.eps));
    }
  }
  return moments;
}

std::vector<Values> inputs_of(const GroupNormCase& c) {
  std::vector<Values> inputs = {random_values(c.x, 1)};
  for (double& value : inputs[0]) value = static_cast<double>(static_cast<float>(value + c.offset));
  if (c.attributes.affine) {
    inputs.push_back(random_values(c.x.shape[-1], 2, 0.5, 1.5));
    inputs.push_back(random_values(c.x.shape[-1], 3));
  }
  return inputs;
}

Reference groupnorm_reference(const GroupNormCase& c) {
  return [c](const std::vector<Values>& inputs) {
    const GroupMoments moments = group_moments(c, inputs[0]);
    const std::int64_t channels = c.x.shape[-1], groups = c.attributes.groups;
    const std::int64_t of_sample = c.x.num_elements() / c.x.shape[0];
    Values y;
    for (std::int64_t i = 0; i < c.x.num_elements(); ++i) {
      const std::int64_t channel = i % channels;
      const std::size_t group = place(i / of_sample * groups + channel / (channels / groups));
      double value = (inputs[0][place(i)] - moments.means[group]) * moments.rstds[group];
      if (c.attributes.affine) value = value * inputs[1][place(channel)] + inputs[2][place(channel)];
      y.push_back(c.attributes.relu && value < 0 ? 0 : value);
    }
    return y;
  };
}

Values held_in_f32(Values values) {
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  return values;
}

}  // namespace

std::vector<OpCase> groupnorm_cases() {
  std::vector<OpCase> cases;
  for (const GroupNormCase& c : groupnorm_shapes()) {
    const auto inputs = inputs_of(c);
    const GroupMoments moments = group_moments(c, inputs[0]);
    cases.push_back({c.name,
                     groupnorm_op(c.x, c.attributes),
                     inputs,
                     {{groupnorm_reference(c)(inputs), moments.means, moments.rstds}}});
    // Around 1000, one unit of f32 is 6e-5.
    cases.back().tolerance = c.offset > 0 ? 3e-4 : 1e-4;
  }
  return cases;
}

std::vector<OpCase> groupnorm_normalize_cases() {
  std::vector<OpCase> cases;
  for (const GroupNormCase& c : groupnorm_shapes()) {
    const auto inputs = inputs_of(c);
    const GroupMoments moments = group_moments(c, inputs[0]);
    std::vector<Values> again = {inputs[0], held_in_f32(moments.means), held_in_f32(moments.rstds)};
    again.insert(again.end(), inputs.begin() + 1, inputs.end());
    cases.push_back(
        {c.name, groupnorm_normalize_op(groupnorm_op(c.x, c.attributes)), again, {{groupnorm_reference(c)(inputs)}}});
    cases.back().tolerance = c.offset > 0 ? 3e-4 : 1e-4;
  }
  return cases;
}

std::vector<OpCase> groupnorm_backward_cases() {
  std::vector<OpCase> cases;
  for (const GroupNormCase& c : groupnorm_shapes()) {
    if (c.x.num_elements() > 1000) continue;  // the differences would take seconds
    const auto inputs = inputs_of(c);
    const GroupMoments moments = group_moments(c, inputs[0]);
    const Values dy = random_values(c.x, 9);
    const Reference f = groupnorm_reference(c);
    std::vector<Values> backward = {dy, inputs[0], held_in_f32(moments.means), held_in_f32(moments.rstds)};
    Expected expected{{finite_difference(f, inputs, 0, dy)}};
    if (c.attributes.affine) {
      backward.push_back(inputs[1]);
      if (c.attributes.relu) backward.push_back(inputs[2]);
      expected.outputs.push_back(finite_difference(f, inputs, 1, dy));
      expected.outputs.push_back(finite_difference(f, inputs, 2, dy));
    }
    cases.push_back({c.name, groupnorm_backward_op(groupnorm_op(c.x, c.attributes)), backward, expected});
    // A group of three nearly equal numbers has a large rstd.
    cases.back().tolerance = c.offset > 0 ? 1e-3 : 5e-4;
  }
  return cases;
}

}  // namespace trainer
