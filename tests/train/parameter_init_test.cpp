#include "engine/train/parameter_init.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

using namespace trainer;

namespace {

std::vector<float> initial(Initialization init, Parameter::Start start, std::uint64_t seed = 3, std::uint32_t index = 0,
                           std::size_t count = 100'003) {
  Parameter parameter;
  parameter.init = init;
  parameter.start = start;
  parameter.fan_in = 150;
  parameter.fan_out = 50;
  std::vector<float> values(count, -77.0F);
  fill_initial(parameter, seed, index, values);
  return values;
}

double mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<float>& values) {
  const double center = mean(values);
  double sum = 0;
  for (const float value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

void check_uniform(const std::vector<float>& values, double bound) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  CHECK(*low >= -bound * 1.000001);
  CHECK(*high <= bound * 1.000001);
  CHECK(*low < -0.999 * bound);
  CHECK(*high > 0.999 * bound);
  CHECK(std::abs(mean(values)) < 0.01 * bound);
  CHECK(deviation(values) == Approx(bound / std::sqrt(3.0)).epsilon(0.01));
}

void check_normal(const std::vector<float>& values, double expected) {
  CHECK(std::abs(mean(values)) < 0.02 * expected);
  CHECK(deviation(values) == Approx(expected).epsilon(0.01));
  const auto within = [&](double limit) {
    return static_cast<double>(std::count_if(values.begin(), values.end(),
                                             [&](float value) { return std::abs(value) < limit * expected; })) /
           static_cast<double>(values.size());
  };
  CHECK(within(1) == Approx(0.6827).margin(0.006));
  CHECK(within(2) == Approx(0.9545).margin(0.004));
  CHECK(within(3) < 1);
}

constexpr auto weight = Parameter::Start::random_weight;
constexpr auto bias = Parameter::Start::random_bias;

}  // namespace

TEST_CASE("Each initialisation has the spread of its definition") {
  check_uniform(initial(Initialization::pytorch, weight), 1 / std::sqrt(150.0));
  check_uniform(initial(Initialization::pytorch, bias), 1 / std::sqrt(150.0));
  check_uniform(initial(Initialization::kaiming_uniform, weight), std::sqrt(6 / 150.0));
  check_uniform(initial(Initialization::xavier_uniform, weight), std::sqrt(6 / 200.0));
  check_normal(initial(Initialization::kaiming_normal, weight), std::sqrt(2 / 150.0));
  check_normal(initial(Initialization::xavier_normal, weight), std::sqrt(2 / 200.0));
  check_normal(initial(Initialization::normal, weight), 0.02);
  check_normal(initial(Initialization::pytorch, Parameter::Start::random_rows), 1);
  check_uniform(initial(Initialization::xavier_uniform, Parameter::Start::random_rows), std::sqrt(6 / 200.0));
}

TEST_CASE("What is scaled starts as the same numbers, each times the scale") {
  for (const Initialization init :
       {Initialization::pytorch, Initialization::kaiming_uniform, Initialization::kaiming_normal,
        Initialization::xavier_uniform, Initialization::xavier_normal, Initialization::normal}) {
    const std::vector<float> values = initial(init, weight);
    Parameter parameter;
    parameter.init = init;
    parameter.start = weight;
    parameter.fan_in = 150;
    parameter.fan_out = 50;
    parameter.scale = 0.25;
    std::vector<float> scaled(values.size());
    fill_initial(parameter, 3, 0, scaled);
    CHECK(std::equal(scaled.begin(), scaled.end(), values.begin(),
                     [](float small, float large) { return small == 0.25F * large; }));
  }
}

TEST_CASE("Zeros, ones and the biases of named initialisations are constant") {
  const auto all_are = [](const std::vector<float>& values, float expected) {
    return std::all_of(values.begin(), values.end(), [&](float value) { return value == expected; });
  };
  CHECK(all_are(initial(Initialization::zeros, weight), 0));
  CHECK(all_are(initial(Initialization::kaiming_normal, bias), 0));
  CHECK(all_are(initial(Initialization::pytorch, Parameter::Start::zeros), 0));
  CHECK(all_are(initial(Initialization::pytorch, Parameter::Start::ones), 1));
}

TEST_CASE("Initial values depend on seed and parameter, and on nothing else") {
  const auto init = GENERATE(Initialization::pytorch, Initialization::kaiming_normal);
  const std::vector<float> values = initial(init, weight, 3, 0);
  CHECK(values == initial(init, weight, 3, 0));
  CHECK(values != initial(init, weight, 4, 0));
  CHECK(values != initial(init, weight, 3, 1));
  // A smaller parameter has the first of the values: sizes that no block of four divides.
  for (const std::size_t count : {1U, 2U, 3U, 5U}) {
    const std::vector<float> few = initial(init, weight, 3, 0, count);
    CHECK(std::equal(few.begin(), few.end(), values.begin()));
  }
}
