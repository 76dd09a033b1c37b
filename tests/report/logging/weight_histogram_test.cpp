#include "engine/report/logging/weight_histogram.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "tests/report/logging/event_file.h"

using namespace trainer;

namespace {

/// By the rule alone: the first limit above each number.
std::map<double, double> counted_slowly(const std::vector<float>& numbers) {
  std::vector<double> limits = {0, std::numeric_limits<double>::max()};
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) limits.insert(limits.end(), {limit, -limit});
  std::map<double, double> counts;
  for (const float number : numbers) {
    double best = std::numeric_limits<double>::max();
    for (const double limit : limits)
      if (limit > static_cast<double>(number) && limit < best) best = limit;
    ++counts[best];
  }
  return counts;
}

}  // namespace

TEST_CASE("numbers are counted in TensorBoard's buckets, from the smallest to the largest float") {
  std::vector<float> numbers = {0.0F,
                                -0.0F,
                                1e-12F,
                                -1e-12F,
                                1e20F,
                                -1e20F,
                                1e-45F,
                                -1e-45F,
                                1.0F,
                                -1.0F,
                                std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::lowest()};
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponents(-15, 22);
  for (int i = 0; i < 2000; ++i) {
    const double size = std::pow(10, exponents(random));
    numbers.push_back(static_cast<float>(i % 2 == 0 ? size : -size));
  }
  // And those next to each limit.
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) {
    const auto near = static_cast<float>(limit);
    for (const float each : {near, std::nextafter(near, 0.0F), std::nextafter(near, 1e30F), -near})
      numbers.push_back(each);
  }
  WeightHistogram histogram;
  histogram.add(std::span(numbers).first(7));
  histogram.add(std::span(numbers).subspan(7));
  const WireMessage message(histogram.message());
  CHECK(message.numbers<double>(1) == std::vector<double>{std::numeric_limits<float>::lowest()});
  CHECK(message.numbers<double>(2) == std::vector<double>{std::numeric_limits<float>::max()});
  CHECK(message.numbers<double>(3) == std::vector<double>{static_cast<double>(numbers.size())});
  double sum = 0, squares = 0;
  for (const float number : numbers) {
    sum += static_cast<double>(number);
    squares += static_cast<double>(number) * static_cast<double>(number);
  }
  CHECK(message.numbers<double>(4) == std::vector<double>{sum});
  CHECK(message.numbers<double>(5) == std::vector<double>{squares});
  const std::vector<double> limits = message.numbers<double>(6), counts = message.numbers<double>(7);
  REQUIRE(limits.size() == counts.size());
  std::map<double, double> found;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (i > 0) CHECK(limits[i] > limits[i - 1]);
    if (counts[i] > 0) found[limits[i]] = counts[i];
  }
  CHECK(found == counted_slowly(numbers));
}

TEST_CASE("what is not finite is left out of a histogram, and one of nothing has no buckets") {
  const std::vector<float> numbers = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                      -std::numeric_limits<float>::infinity()};
  WeightHistogram histogram;
  histogram.add(numbers);
  CHECK(histogram.count() == 0);
  const WireMessage message(histogram.message());
  CHECK(message.bytes(6).empty());
  CHECK(message.numbers<double>(3) == std::vector<double>{0});
  CHECK(message.numbers<double>(1) == std::vector<double>{0});
}
