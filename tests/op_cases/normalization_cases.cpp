#include <algorithm>
#include <cmath>

#include "tests/op_cases/batchnorm2d_reference.h"
#include "tests/op_cases/placed_cases.h"

namespace trainer {

namespace {

/// For the forward op alone: a mean near 0 and at 1000 deviations, of few rows and of many.
std::vector<BatchNormCase> batchnorm_cases_with_sums() {
  const DType f32 = DType::f32;
  return {
      {"sums", {f32, {3, 5, 7, 3}}, {.given_sums = true}},
      {"sums, many rows", {f32, {5, 29, 17, 2}}, {.relu = true, .given_sums = true}},
      {"sums, no weight, many rows", {f32, {5, 23, 11, 16}}, {.affine = false, .given_sums = true}},
      {"sums, addend, many rows", {f32, {2, 29, 37, 8}}, {.relu = true, .adds = true, .given_sums = true}},
      {"sums, addend, no weight", {f32, {2, 31, 33, 3}}, {.affine = false, .adds = true, .given_sums = true}},
      {"sums, mean large against the deviation", {f32, {5, 29, 17, 2}}, {.given_sums = true}, 1000},
  };
}

struct LayerNormCase {
  std::string name;
  TensorType x;
  LayerNormAttributes attributes;
};

std::vector<LayerNormCase> layernorm_shapes() {
  const DType f32 = DType::f32;
  return {{"one row of two", {f32, {1, 2}}, {}},
          {"odd", {f32, {5, 7}}, {}},
          {"no weight", {f32, {5, 7}}, {.affine = false}},
          {"three dimensions", {f32, {2, 3, 65}}, {.eps = 1e-3}},
          {"many rows", {f32, {301, 3}}, {}},
          {"sum, one row of two", {f32, {1, 2}}, {.adds = true}},
          {"sum, odd", {f32, {5, 7}}, {.adds = true}},
          {"sum, no weight", {f32, {5, 7}}, {.affine = false, .adds = true}},
          {"sum, three dimensions", {f32, {2, 3, 65}}, {.eps = 1e-3, .adds = true}},
          {"sum, a long row", {f32, {3, 1031}}, {.adds = true}},
          {"sum, many rows", {f32, {301, 3}}, {.adds = true}},
          {"rms, one row of one", {f32, {1, 1}}, {.centres = false}},
          {"rms, odd", {f32, {5, 7}}, {.centres = false}},
          {"rms, no weight", {f32, {5, 7}}, {.eps = 0x1p-23, .affine = false, .centres = false}},
          {"rms, three dimensions", {f32, {2, 3, 65}}, {.eps = 1e-3, .centres = false}},
          {"rms, many rows", {f32, {301, 3}}, {.centres = false}},
          {"rms of a sum, odd", {f32, {5, 7}}, {.centres = false, .adds = true}},
          {"rms of a sum, no weight", {f32, {5, 7}}, {.affine = false, .centres = false, .adds = true}},
          {"rms of a sum, a long row", {f32, {3, 1031}}, {.centres = false, .adds = true}}};
}

std::vector<Values> inputs_of(const LayerNormCase& c) {
  std::vector<Values> inputs = {random_values(c.x, 1)};
  if (c.attributes.affine) {
    inputs.push_back(random_values(c.x.shape[-1], 2, 0.5, 1.5));
    if (c.attributes.centres) inputs.push_back(random_values(c.x.shape[-1], 3));
  }
  return inputs;
}

/// Of x by an addend that is −x/2, 0 or x: exact in every type.
Values exact_addend(const Values& x) {
  Values addend;
  for (std::size_t i = 0; i < x.size(); ++i) addend.push_back(x[i] * (i % 3 == 0 ? -0.5 : i % 3 == 1 ? 0 : 1));
  return addend;
}
Values sum_of(const Values& a, const Values& b) {
  Values sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
  return sum;
}

/// Around 0.
Moments squares_of(const Values& x, std::int64_t first, std::int64_t count) {
  Moments m;
  for (std::int64_t i = 0; i < count; ++i) m.variance += std::pow(x[at(first + i)], 2) / static_cast<double>(count);
  return m;
}

std::vector<Moments> row_moments(const LayerNormCase& c, const Values& x) {
  std::vector<Moments> moments;
  const std::int64_t columns = c.x.shape[-1];
  for (std::int64_t row = 0; row < c.x.num_elements() / columns; ++row)
    moments.push_back(c.attributes.centres ? moments_of(x, row * columns, 1, columns)
                                           : squares_of(x, row * columns, columns));
  return moments;
}

Reference reference_of(const LayerNormCase& c) {
  return [c](const std::vector<Values>& inputs) {
    const auto moments = row_moments(c, inputs[0]);
    const std::size_t columns = at(c.x.shape[-1]);
    Values y;
    for (std::size_t i = 0; i < inputs[0].size(); ++i) {
      const Moments& m = moments[i / columns];
      double value = (inputs[0][i] - m.mean) / std::sqrt(m.variance + c.attributes.eps);
      if (c.attributes.affine) value *= inputs[1][i % columns];
      if (c.attributes.affine && c.attributes.centres) value += inputs[2][i % columns];
      y.push_back(value);
    }
    return y;
  };
}

}  // namespace

std::vector<OpCase> batchnorm2d_cases() {
  std::vector<OpCase> cases;
  std::vector<BatchNormCase> all = batchnorm_cases();
  for (const BatchNormCase& c : batchnorm_cases_with_sums()) all.push_back(c);
  for (const BatchNormCase& c : all) {
    const auto inputs = inputs_of(c);
    const auto moments = batch_moments(c, inputs[0]);
    Expected expected{{training_reference(c)(inputs), means_of(moments), rstds_of(moments, c.attributes.eps)}};
    Values running_mean, running_var;
    const auto rows = static_cast<double>(rows_of(c));
    for (std::size_t i = 0; i < moments.size(); ++i) {
      const double m = c.attributes.momentum;
      running_mean.push_back((1 - m) * inputs[1][i] + m * moments[i].mean);
      running_var.push_back((1 - m) * inputs[2][i] + m * moments[i].variance * rows / (rows - 1));
    }
    expected.changed_inputs = {{1, running_mean}, {2, running_var}};
    cases.push_back({c.name, forward_op(c), inputs, expected});
    // Around 1000, one unit of f32 is 6e-5.
    if (c.offset > 0) cases.back().tolerance = 3e-4;
  }
  append_placed(cases);
  return cases;
}

std::vector<OpCase> batchnorm2d_normalize_cases() {
  std::vector<OpCase> cases;
  for (const BatchNormCase& c : batchnorm_cases()) {
    const auto inputs = inputs_of(c);
    const auto moments = batch_moments(c, inputs[0]);
    std::vector<Values> again = {inputs[0], as_f32(means_of(moments)), as_f32(rstds_of(moments, c.attributes.eps))};
    again.insert(again.end(), inputs.begin() + 3, inputs.end());
    cases.push_back({c.name, batchnorm2d_normalize_op(forward_op(c)), again, {{training_reference(c)(inputs)}}});
    // Around 1000, one unit of f32 is 6e-5.
    if (c.offset > 0) cases.back().tolerance = 3e-4;
  }
  append_placed(cases);
  return cases;
}

std::vector<OpCase> batchnorm2d_inference_cases() {
  std::vector<OpCase> cases;
  for (const BatchNormCase& c : batchnorm_cases()) {
    if (c.offset > 0) continue;
    const auto inputs = inputs_of(c);
    std::vector<Moments> moments;
    for (std::size_t i = 0; i < inputs[1].size(); ++i) moments.push_back({inputs[1][i], inputs[2][i]});
    cases.push_back(
        {c.name, batchnorm2d_inference_op(c.x, c.attributes), inputs, {{apply_batchnorm(c, inputs, moments)}}});
  }
  append_placed(cases);
  return cases;
}

std::vector<OpCase> batchnorm2d_inference_backward_cases() {
  std::vector<OpCase> cases;
  for (const BatchNormCase& c : batchnorm_cases()) {
    // Around 1000 the differences have no digits left.
    if (c.offset > 0 || c.attributes.relu || c.attributes.adds || c.x.num_elements() > 1000) continue;
    const auto inputs = inputs_of(c);
    const Reference f = [&](const std::vector<Values>& given) {
      std::vector<Moments> moments;
      for (std::size_t i = 0; i < given[1].size(); ++i) moments.push_back({given[1][i], given[2][i]});
      return apply_batchnorm(c, given, moments);
    };
    const Values dy = random_values(c.x, 9);
    std::vector<Values> backward = {dy, inputs[2]};
    if (c.attributes.affine) backward.push_back(inputs[3]);
    cases.push_back({c.name,
                     batchnorm2d_inference_backward_op(batchnorm2d_inference_op(c.x, c.attributes)),
                     backward,
                     {{finite_difference(f, inputs, 0, dy)}}});
    cases.back().tolerance = 1e-4;
  }
  return cases;
}

std::vector<OpCase> batchnorm2d_backward_cases() {
  std::vector<OpCase> cases;
  for (const BatchNormCase& c : batchnorm_cases()) {
    if (c.x.num_elements() > 1000) continue;  // the differences would take seconds
    const auto inputs = inputs_of(c);
    const auto moments = batch_moments(c, inputs[0]);
    const Values dy = random_values(c.x, 9);
    const Reference f = training_reference(c);
    std::vector<Values> backward = {dy, inputs[0], as_f32(means_of(moments)),
                                    as_f32(rstds_of(moments, c.attributes.eps))};
    Expected expected{{finite_difference(f, inputs, 0, dy)}};
    if (c.attributes.affine) {
      backward.push_back(inputs[3]);
      expected.outputs.push_back(finite_difference(f, inputs, 3, dy));
      expected.outputs.push_back(finite_difference(f, inputs, 4, dy));
    }
    const bool stops = c.attributes.adds && c.attributes.relu;
    if (c.attributes.affine && c.attributes.relu && !stops) backward.push_back(inputs[4]);
    if (stops) {
      backward.push_back(as_f32(f(inputs)));
      expected.outputs.push_back(finite_difference(f, inputs, inputs.size() - 1, dy));
    }
    cases.push_back({c.name, batchnorm2d_backward_op(forward_op(c)), backward, expected});
    cases.back().tolerance = c.offset > 0 ? 1e-3 : 1e-4;
  }
  return cases;
}

std::vector<OpCase> layernorm_cases() {
  std::vector<OpCase> cases;
  for (const LayerNormCase& c : layernorm_shapes()) {
    auto inputs = inputs_of(c);
    const Values x = inputs[0], addend = c.attributes.adds ? exact_addend(x) : Values{};
    if (c.attributes.adds) inputs[0] = sum_of(x, addend);
    const auto moments = row_moments(c, inputs[0]);
    Expected expected{{reference_of(c)(inputs)}};
    if (c.attributes.centres) expected.outputs.push_back(means_of(moments));
    expected.outputs.push_back(rstds_of(moments, c.attributes.eps));
    LayerNormAttributes attributes = c.attributes;
    attributes.adds = false;
    Op op = layernorm_op(c.x, attributes);
    if (c.attributes.adds) {
      expected.outputs.push_back(inputs[0]);
      inputs[0] = x;
      inputs.push_back(addend);
      op = layernorm_adding_op(op);
    }
    cases.push_back({c.name, op, inputs, expected});
    cases.back().tolerance = 1e-4;
  }
  return cases;
}

std::vector<OpCase> layernorm_backward_cases() {
  std::vector<OpCase> cases;
  for (const LayerNormCase& c : layernorm_shapes()) {
    const auto inputs = inputs_of(c);
    const auto moments = row_moments(c, inputs[0]);
    const Values dy = random_values(c.x, 9);
    const Reference f = reference_of(c);
    std::vector<Values> backward = {dy, inputs[0]};
    if (c.attributes.centres) backward.push_back(as_f32(means_of(moments)));
    backward.push_back(as_f32(rstds_of(moments, c.attributes.eps)));
    Expected expected{{finite_difference(f, inputs, 0, dy)}};
    if (c.attributes.affine) backward.push_back(inputs[1]);
    for (std::size_t i = 1; i < inputs.size(); ++i) expected.outputs.push_back(finite_difference(f, inputs, i, dy));
    LayerNormAttributes attributes = c.attributes;
    attributes.adds = false;
    Op op = layernorm_backward_op(layernorm_op(c.x, attributes));
    if (c.attributes.adds) {
      backward.push_back(random_values(c.x, 10));
      for (std::size_t i = 0; i < dy.size(); ++i) expected.outputs[0][i] += backward.back()[i];
      op = layernorm_adding_backward_op(op);
    }
    cases.push_back({c.name, op, backward, expected});
    // A row of three nearly equal numbers has a large rstd.
    cases.back().tolerance = 5e-4;
  }
  return cases;
}

}  // namespace trainer
