#include <catch2/catch.hpp>
#include <limits>

#include "tests/cuda/batchnorm2d_calls.h"

namespace trainer::cuda {
namespace {

using namespace batchnorm2d_calls;

// Three launches; one tile of channels and two, whole packs and not, one part of the rows and many.
constexpr BatchNorm2dShape shapes_with_sums[] = {{1025, 8}, {1031, 33}, {2115, 132}, {8209, 3}, {1100, 264}};

/// Each channel c of mean ratios[c % ratios.size()] and deviation 1, as the type rounds it.
Operands operands_around(const Case& c, const Numbers& ratios) {
  Operands o(c);
  Numbers x = random_numbers(num_elements(c.shape), 1, -1.7320508, 1.7320508);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += ratios[i % at(c.shape.channels) % ratios.size()];
  o.x = KernelTensor(c.type, x);
  return o;
}

/// As a library may add up: parts of 256 rows, and those, in f32.
Sums sums_in_f32(const BatchNorm2dShape& shape, const Numbers& x) {
  Numbers sums, squares;
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    float sum = 0, square = 0;
    for (std::int64_t begin = 0; begin < shape.rows; begin += 256) {
      float part = 0, square_part = 0;
      for (std::int64_t row = begin; row < std::min(begin + 256, shape.rows); ++row) {
        const auto value = static_cast<float>(x[at(row * shape.channels + channel)]);
        part += value;
        square_part += value * value;
      }
      sum += part;
      square += square_part;
    }
    sums.push_back(static_cast<double>(sum));
    squares.push_back(static_cast<double>(square));
  }
  return {KernelTensor(DType::f32, sums), KernelTensor(DType::f32, squares)};
}

/// What a channel of the result holds: its statistics, and its column of y.
Numbers channel_of(const Result& r, const BatchNorm2dShape& shape, std::int64_t channel) {
  Numbers numbers;
  for (const KernelTensor* const tensor : {&r.mean, &r.rstd, &r.running_mean, &r.running_var})
    numbers.push_back(tensor->values()[at(channel)]);
  const Numbers y = r.y.values();
  for (std::int64_t row = 0; row < shape.rows; ++row) numbers.push_back(y[at(row * shape.channels + channel)]);
  return numbers;
}

TEST_CASE("batch norm takes given sums up to a mean of 16 deviations, and beyond it has the bits of none") {
  const Numbers ratios = {0, 1, 3, 10, 15, 17, 30, 100, 300, 1000};
  for (const DType type : {DType::f16, DType::f32}) {
    for (const BatchNorm2dShape& shape : shapes_with_sums) {
      INFO(shape.rows << " rows, " << shape.channels << " channels, " << name_of(type));
      const Case c{.shape = shape, .type = type, .relu = true};
      const Operands o = operands_around(c, ratios);
      const Sums sums = sums_in_f32(shape, o.x.values());
      const Result with = run_forward(c, o, 0xFF, false, &sums), without = run_forward(c, o);
      CHECK(run_forward(c, o, 0x3D, false, &sums) == with);
      CHECK(run_forward(c, o, 0xFF, true, &sums) == with);
      const Statistics s = statistics_of(shape, o.x.values());
      for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
        const double mean = s.mean[at(channel)], variance = s.variance[at(channel)];
        const double ratio = std::fabs(mean) / std::sqrt(variance);
        INFO("channel " << channel << " of mean " << mean << " and variance " << variance);
        if (ratio > 16.1) CHECK(channel_of(with, shape, channel) == channel_of(without, shape, channel));
        // f16 rounds to 5e-4.
        const double found = std::pow(with.rstd.values()[at(channel)], -2) - c.eps;
        CHECK(std::fabs(found / variance - 1) < 2.5e-4);
        CHECK(std::fabs(with.mean.values()[at(channel)] - mean) < 1e-5 + 1e-7 * std::fabs(mean));
        const double momentum = c.momentum, rows = static_cast<double>(shape.rows);
        CHECK(
            with.running_mean.values()[at(channel)] ==
            Approx((1 - momentum) * o.running_mean.values()[at(channel)] + momentum * mean).epsilon(1e-5).margin(1e-6));
        CHECK(with.running_var.values()[at(channel)] ==
              Approx((1 - momentum) * o.running_var.values()[at(channel)] + momentum * variance * rows / (rows - 1))
                  .epsilon(2.5e-4));
      }
    }
  }
}

TEST_CASE("a channel whose sums serve is settled by them alone, whatever its neighbours' are") {
  for (const BatchNorm2dShape& shape : shapes_with_sums) {
    const Case c{.shape = shape, .type = DType::f16};
    const Operands o(c);
    // Of other numbers than x.
    const Operands other(c, 3, 2);
    Sums sums = sums_of(shape, other.x.values());
    for (const int pass : {0, 1}) {
      const Result r = run_forward(c, o, 0xFF, false, &sums), own = run_forward(c, o);
      const Statistics s = statistics_of(shape, other.x.values());
      for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
        const bool serves = pass == 0 || channel % 5 != 1;
        if (!serves) CHECK(channel_of(r, shape, channel) == channel_of(own, shape, channel));
        if (serves) CHECK(r.mean.values()[at(channel)] == Approx(s.mean[at(channel)]).epsilon(1e-6));
      }
      for (std::int64_t channel = 1; channel < shape.channels; channel += 5)
        sums.of_squares.data<float>()[channel] = sums.of_x.data<float>()[channel];
    }
  }
}

TEST_CASE("sums that tell no variance above 0, or nothing finite, are left alone") {
  const float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  const float pairs[][2] = {{0, 0},
                            {2000, 2000.0F / 1025 * 2000},
                            {2000, 1},
                            {10, -10},
                            {none, 1000},
                            {10, none},
                            {infinity, 1000},
                            {10, infinity},
                            {-infinity, infinity},
                            {infinity, infinity}};
  for (const auto& [sum, square_sum] : pairs) {
    for (const BatchNorm2dShape& shape : {BatchNorm2dShape{1025, 16}, BatchNorm2dShape{1025, 3}}) {
      INFO(sum << " and " << square_sum);
      const Case c{.shape = shape, .type = DType::f16};
      const Operands o(c);
      Sums sums = sums_of(shape, o.x.values());
      const Result served = run_forward(c, o, 0xFF, false, &sums), own = run_forward(c, o);
      sums.of_x.data<float>()[1] = sum;
      sums.of_squares.data<float>()[1] = square_sum;
      const Result r = run_forward(c, o, 0xFF, false, &sums);
      CHECK(channel_of(r, shape, 1) == channel_of(own, shape, 1));
      CHECK(channel_of(r, shape, 2) == channel_of(served, shape, 2));
    }
  }
}

TEST_CASE("a channel of one number, and one with NaN, are what they are without sums") {
  const BatchNorm2dShape shape{2000, 8};
  const Case c{.shape = shape, .type = DType::f16, .relu = true};
  Operands o(c);
  Numbers x = o.x.values();
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    x[at(row * 8 + 2)] = 0.3;
    x[at(row * 8 + 5)] = 0;
  }
  x[7 * 8 + 3] = std::numeric_limits<double>::quiet_NaN();
  o.x = KernelTensor(DType::f16, x);
  const Sums sums = sums_of(shape, o.x.values());
  const Result with = run_forward(c, o, 0xFF, false, &sums), without = run_forward(c, o);
  for (const std::int64_t channel : {2, 5})
    CHECK(channel_of(with, shape, channel) == channel_of(without, shape, channel));
  const Numbers y = with.y.values();
  for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i % 8 == 3));
  CHECK(std::isnan(with.running_var.values()[3]));
}

TEST_CASE("up to 1024 rows, which one launch reads again from the cache, sums are left alone") {
  const Case c{.shape = {1024, 8}, .type = DType::f16};
  const Operands o(c), other(c, 3, 2);
  const Sums sums = sums_of(c.shape, other.x.values());
  CHECK(run_forward(c, o, 0xFF, false, &sums) == run_forward(c, o));
}

}  // namespace
}  // namespace trainer::cuda
