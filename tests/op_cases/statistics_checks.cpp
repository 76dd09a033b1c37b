#include "tests/op_cases/statistics_checks.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/op_cases/op_case.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {
namespace {

struct Sums {
  Values of_y, of_squares, of_magnitudes;
};

Sums sums_of(const Values& y, std::size_t channels) {
  Sums sums{Values(channels), Values(channels), Values(channels)};
  for (std::size_t i = 0; i < y.size(); ++i) {
    sums.of_y[i % channels] += y[i];
    sums.of_squares[i % channels] += y[i] * y[i];
    sums.of_magnitudes[i % channels] += std::fabs(y[i]);
  }
  return sums;
}

void check_statistics_of(Device& device, const Op& without) {
  const ShortRandomValues short_values;
  OpCase plain{"", without, {random_values(without.inputs[0], 1, -1, 2), random_values(without.inputs[1], 2)}, {}};
  OpCase with = plain;
  with.op = conv2d_with_statistics_op(without);
  const OpResult result = run_op(device, with, std::byte{0xFF});
  CHECK(run_op(device, with, std::byte{0x3D}) == result);

  const Values y = to_values(with.op.outputs[0], result.outputs[0]);
  const Values y_without = to_values(with.op.outputs[0], run_op(device, plain, std::byte{0xFF}).outputs[0]);
  // A unit of the last place, and what sums in another order differ in where they cancel.
  const double rounding = rounding_of(DType::f16);
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    worst = std::max(worst, std::fabs(y[i] - y_without[i]) / (1e-4 + 2 * rounding * std::fabs(y[i])));
  CHECK(worst <= 1);

  // Of y before or after it is rounded.
  const Values sums = to_values(with.op.outputs[1], result.outputs[1]);
  const Values square_sums = to_values(with.op.outputs[2], result.outputs[2]);
  const Sums expected = sums_of(y, sums.size());
  for (std::size_t k = 0; k < sums.size(); ++k) {
    INFO("channel " << k);
    CHECK(std::fabs(sums[k] - expected.of_y[k]) <= 1e-5 + rounding * expected.of_magnitudes[k]);
    CHECK(std::fabs(square_sums[k] - expected.of_squares[k]) <= 1e-5 + 2 * rounding * expected.of_squares[k]);
  }
}

}  // namespace

int check_statistics_of_convolutions(Device& device, bool in_any_case) {
  const auto of = [](const Shape& x, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    return conv2d_op({DType::f16, x}, {.out = out,
                                       .kernel = {kernel, kernel},
                                       .stride = {stride, stride},
                                       .padding = {kernel / 2, kernel / 2},
                                       .bias = false});
  };
  int num_run = 0;
  for (const Op& op : {of({8, 12, 12, 8}, 16, 3, 1), of({9, 23, 11, 16}, 8, 1, 1), of({20, 15, 17, 8}, 24, 3, 2)}) {
    INFO(op.inputs[0].to_string() << " to " << op.outputs[0].to_string());
    if (!in_any_case && !device.convolution_statistics(conv2d_with_statistics_op(op))) continue;
    check_statistics_of(device, op);
    ++num_run;
  }
  return num_run;
}

}  // namespace trainer
