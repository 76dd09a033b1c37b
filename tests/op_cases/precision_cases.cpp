// Casts and the loss scale.

#include <cmath>
#include <limits>

#include "tests/op_cases/op_case.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Numbers of every kind: ties, subnormals of f16, the largest of f16 and what is beyond, infinities.
Values numbers_of_every_kind() {
  Values values = {0,          -0.0,    1,       -1,      1 + 0x1p-11,    1 + 0x3p-11, 1 + 0x1p-8,
                   1 + 0x3p-9, 0x1p-14, 0x1p-24, 0x1p-25, 0x1.8p-25,      -0x1p-26,    65504,
                   65519,      65520,   -70000,  0x1p100, 0x1.fffffep127, -infinite,   infinite};
  const Values drawn = random_values(1024, 7, -8, 8);
  values.insert(values.end(), drawn.begin(), drawn.end());
  return values;
}

}  // namespace

std::vector<OpCase> cast_cases() {
  std::vector<OpCase> cases;
  for (const DType from : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t count : {1, 7, 1024, 1031, 20011}) {
        Values x = count == 1031 ? numbers_of_every_kind() : random_values(count, 3, -2, 2);
        if (from != DType::f32)
          for (double& value : x) value = round_to(from, value);
        Values y = x;
        if (to != DType::f32)
          for (double& value : y) value = round_to(to, value);
        const TensorType type{from, {static_cast<std::int64_t>(x.size())}};
        cases.push_back({type.to_string() + " to " + std::string(name_of(to)), cast_op(type, to), {x}, {{y}}});
        cases.back().tolerance = 0;
      }
    }
  }
  return cases;
}

std::vector<OpCase> scale_gradient_cases() {
  std::vector<OpCase> cases;
  for (const std::int64_t count : {1, 7, 1031}) {
    const TensorType type{DType::f32, {count}};
    const Values x = random_values(count, 5);
    for (const double scale : {65536.0, 0.25, 1700.0}) {
      Values y;
      for (const double value : x) y.push_back(value * scale);
      cases.push_back({"scale " + std::to_string(scale), scale_gradient_op(type), {x, {scale, 3, 1}}, {{y}}});
      cases.back().tolerance = 1e-7;
    }
  }
  return cases;
}

std::vector<OpCase> update_loss_scale_cases() {
  struct Step {
    std::string name;
    double loss, finite;
    Values before, after;
  };
  const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Step> steps = {
      {"a good step", 2.5, 1, {65536, 0, 4}, {65536, 1, 4}},
      {"the last of an interval", 2.5, 1, {65536, 2, 4}, {131072, 0, 4}},
      {"a gradient overflowed", 2.5, 0, {65536, 2, 4}, {32768, 0, 5}},
      {"the loss is NaN", not_a_number, 1, {65536, 1, 0}, {32768, 0, 1}},
      {"the loss overflowed", infinite, 1, {65536, 1, 0}, {32768, 0, 1}},
      {"a scale that would become infinite stays", 2.5, 1, {0x1p127, 2, 0}, {0x1p127, 0, 0}},
  };
  std::vector<OpCase> cases;
  for (const Step& step : steps) {
    cases.push_back({step.name,
                     update_loss_scale_op({.interval = 3}),
                     {{step.loss, 8, 3, 5, 8}, {4, 0.25, step.finite}, step.before},
                     {{}, {{2, step.after}}}});
    cases.back().tolerance = 0;
  }
  return cases;
}

}  // namespace trainer
