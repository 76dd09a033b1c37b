#include <algorithm>
#include <cmath>

#include "engine/ops/batchnorm2d_over_ranks.h"
#include "tests/op_cases/op_case.h"
#include "tests/op_cases/placed_cases.h"

namespace trainer {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Mean and biased variance over `count` values that lie `stride` apart.
struct Moments {
  double mean = 0, variance = 0;
};
Moments moments_of(const Values& x, std::int64_t first, std::int64_t stride, std::int64_t count) {
  Moments m;
  for (std::int64_t i = 0; i < count; ++i) m.mean += x[at(first + i * stride)] / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i)
    m.variance += std::pow(x[at(first + i * stride)] - m.mean, 2) / static_cast<double>(count);
  return m;
}

struct BatchNormCase {
  std::string name;
  TensorType x;
  BatchNorm2dAttributes attributes;
  double offset = 0;  ///< added to x: a mean that is large against the deviation
};

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

Op forward_op(const BatchNormCase& c) { return batchnorm2d_op(c.x, c.attributes); }

/// Of each channel, f(x), as f32.
template <typename Function>
Values sums_of(const TensorType& type, const Values& x, Function&& f) {
  Values sums(at(type.shape[-1]));
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += f(x[i]);
  for (double& sum : sums) sum = static_cast<double>(static_cast<float>(sum));
  return sums;
}

/// x, running mean, running variance[, weight, bias][, addend][, Σx, Σx²]
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
/// As an f32 buffer would hold them.
Values as_f32(Values values) {
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  return values;
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

namespace {

/// What ranks add up: Σ and Σ of squares of each channel's moments over `rows` rows.
Values sums_over_rows(const std::vector<Moments>& moments, double rows) {
  Values sums;
  for (const Moments& m : moments) sums.push_back(rows * m.mean);
  for (const Moments& m : moments) sums.push_back(rows * (m.variance + m.mean * m.mean));
  sums.push_back(rows);
  return sums;
}

/// Of norms over ranks: those without an addend, and of them the small ones, whose differences do not take seconds.
std::vector<BatchNormCase> cases_over_ranks() {
  std::vector<BatchNormCase> cases;
  for (const BatchNormCase& c : batchnorm_cases())
    if (!c.attributes.adds) cases.push_back(c);
  return cases;
}
std::vector<BatchNormCase> gradient_cases_over_ranks() {
  std::vector<BatchNormCase> cases;
  for (const BatchNormCase& c : cases_over_ranks())
    if (c.x.num_elements() <= 1000) cases.push_back(c);
  return cases;
}

/// What the gradient of a norm is made of, beside dy: x, mean, rstd, and the batch of all ranks, of which x is the
/// first part: as many samples of another mean follow.
struct SharedBatch {
  BatchNormCase whole;
  std::vector<Values> inputs;  ///< of the whole batch
  std::vector<Moments> moments;
  Values dy;

  explicit SharedBatch(const BatchNormCase& part) : whole(part) {
    Shape shape = part.x.shape.with_batch(2 * part.x.shape[0]);
    whole.x.shape = shape;
    inputs = inputs_of(part);
    for (const double value : random_values(part.x, 11))
      inputs[0].push_back(static_cast<double>(static_cast<float>(value + part.offset + 0.25)));
    moments = batch_moments(whole, inputs[0]);
    dy = random_values(whole.x, 9);
  }
  std::size_t part_size() const { return inputs[0].size() / 2; }
  Values first(const Values& values) const {
    return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(part_size())};
  }
  /// Σg and Σ g·(x − mean) over elements [begin, end), and the rows.
  Values gradient_sums(std::size_t begin, std::size_t end) const {
    const std::size_t channels = moments.size();
    const Values y = training_reference(whole)(inputs), means = as_f32(means_of(moments));
    Values sums(2 * channels + 1);
    for (std::size_t i = begin; i < end; ++i) {
      const bool counts = !whole.attributes.relu || (y[i] > 0 && !(whole.attributes.capped && y[i] >= 6));
      if (!counts) continue;
      sums[i % channels] += dy[i];
      sums[channels + i % channels] += dy[i] * (inputs[0][i] - means[i % channels]);
    }
    sums.back() = static_cast<double>((end - begin) / channels);
    return sums;
  }
  Op normalize() const {
    BatchNormCase part = whole;
    part.x.shape = whole.x.shape.with_batch(whole.x.shape[0] / 2);
    return batchnorm2d_normalize_op(forward_op(part));
  }
  std::vector<Values> operands() const {
    return {first(dy), first(inputs[0]), as_f32(means_of(moments)), as_f32(rstds_of(moments, whole.attributes.eps))};
  }
};

}  // namespace

std::vector<OpCase> batchnorm2d_sums_cases() {
  std::vector<OpCase> cases;
  for (const BatchNormCase& c : cases_over_ranks()) {
    if (c.attributes.relu) continue;
    const Values x = inputs_of(c)[0];
    const Values sums = sums_over_rows(batch_moments(c, x), static_cast<double>(rows_of(c)));
    cases.push_back({c.name, batchnorm2d_sums_op(c.x), {x}, {{sums}}});
  }
  return cases;
}

std::vector<OpCase> batchnorm2d_statistics_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](const std::string& name, const std::vector<Moments>& moments, double rows) {
    const auto channels = static_cast<std::int64_t>(moments.size());
    const BatchNorm2dAttributes attributes{.eps = 1e-3, .momentum = 0.3, .num_ranks = 2};
    const Values old_mean = random_values(channels, 2), old_var = random_values(channels, 3, 0.5, 2);
    Values running_mean, running_var;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      const double unbiased = rows > 1 ? moments[i].variance * rows / (rows - 1) : moments[i].variance;
      running_mean.push_back(0.7 * old_mean[i] + 0.3 * moments[i].mean);
      running_var.push_back(0.7 * old_var[i] + 0.3 * unbiased);
    }
    cases.push_back({name,
                     batchnorm2d_statistics_op(batchnorm2d_sums_type(channels), attributes),
                     {sums_over_rows(moments, rows), old_mean, old_var},
                     {{means_of(moments), rstds_of(moments, attributes.eps)}, {{1, running_mean}, {2, running_var}}}});
  };
  const auto drawn = [](std::int64_t channels, double offset, double scale) {
    std::vector<Moments> moments;
    const Values means = random_values(channels, 6), variances = random_values(channels, 7, 0.25, 4);
    for (std::size_t i = 0; i < means.size(); ++i) moments.push_back({means[i] + offset, variances[i] * scale});
    return moments;
  };
  add("one channel, two rows", drawn(1, 0, 1), 2);
  add("one row", {{0.5, 0}, {-3, 0}}, 1);
  add("67 channels", drawn(67, 0, 1), 35);
  add("513 channels", drawn(513, 0, 1), 1000);
  add("a mean of 10000 deviations", drawn(3, 10000, 1), 100);
  return cases;
}

std::vector<OpCase> batchnorm2d_gradient_sums_cases() {
  std::vector<OpCase> cases;
  for (const BatchNormCase& c : gradient_cases_over_ranks()) {
    const SharedBatch batch(c);
    std::vector<Values> operands = batch.operands();
    if (c.attributes.affine && c.attributes.relu)
      operands.insert(operands.end(), batch.inputs.begin() + 3, batch.inputs.end());
    const Values sums = batch.gradient_sums(0, batch.part_size());
    Expected expected{{sums}};
    if (c.attributes.affine) {
      const std::size_t channels = batch.moments.size();
      Values dweight, dbias;
      for (std::size_t i = 0; i < channels; ++i) {
        dweight.push_back(sums[channels + i] * operands[3][i]);
        dbias.push_back(sums[i]);
      }
      expected.outputs.insert(expected.outputs.end(), {dweight, dbias});
    }
    cases.push_back({c.name, batchnorm2d_gradient_sums_op(batch.normalize()), operands, expected});
    cases.back().tolerance = 1e-4;
  }
  return cases;
}

std::vector<OpCase> batchnorm2d_normalize_backward_cases() {
  std::vector<OpCase> cases;
  for (const BatchNormCase& c : gradient_cases_over_ranks()) {
    const SharedBatch batch(c);
    std::vector<Values> operands = batch.operands();
    operands.push_back(batch.gradient_sums(0, batch.inputs[0].size()));
    if (c.attributes.affine) operands.push_back(batch.inputs[3]);
    if (c.attributes.affine && c.attributes.relu) operands.push_back(batch.inputs[4]);
    const Values dx = batch.first(finite_difference(training_reference(batch.whole), batch.inputs, 0, batch.dy));
    cases.push_back({c.name, batchnorm2d_normalize_backward_op(batch.normalize()), operands, {{dx}}});
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
