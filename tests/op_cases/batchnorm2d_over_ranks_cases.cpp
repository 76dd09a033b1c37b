#include "engine/ops/batchnorm2d_over_ranks.h"

#include <utility>

#include "tests/op_cases/batchnorm2d_reference.h"

namespace trainer {

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
    const BatchNorm2dAttributes attributes{.eps = 1e-3, .momentum = 0.3, .ranks = {2}};
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

}  // namespace trainer
