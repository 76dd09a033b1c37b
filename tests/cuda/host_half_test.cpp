// The 16-bit types of cuda/launch/host_half.h against their definitions in double precision.

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cuda/kernels/element.h"

namespace trainer::cuda {
namespace {

/// A format of `fraction_bits`, and as many bits of exponent as are left, less the sign.
template <typename T>
struct Format;
template <>
struct Format<half> {
  static constexpr int fraction_bits = 10, bias = 15;
};
template <>
struct Format<bfloat16> {
  static constexpr int fraction_bits = 7, bias = 127;
};

template <typename T>
double value_of(std::uint32_t bits) {
  constexpr int fraction_bits = Format<T>::fraction_bits, bias = Format<T>::bias;
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>((bits & 0x7FFFu) >> fraction_bits);
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  if (exponent == 2 * bias + 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
}

template <typename T>
std::uint16_t bits_of(T value) {
  return std::bit_cast<std::uint16_t>(value);
}

/// The nearest number of the format by search; halfway, the one whose last bit is 0.
template <typename T>
std::uint16_t nearest(float value) {
  static const std::vector<double> magnitudes = [] {  // 0 up to what would follow the largest number
    std::vector<double> values;
    for (std::uint32_t bits = 0; std::isfinite(value_of<T>(bits)); ++bits) values.push_back(value_of<T>(bits));
    values.push_back(values.back() + (values.back() - values[values.size() - 2]));
    return values;
  }();
  const double magnitude = std::abs(static_cast<double>(value));
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  auto bits = static_cast<std::uint32_t>(above - magnitudes.begin());
  if (above == magnitudes.end()) {
    --bits;
  } else if (bits > 0) {
    const double up = *above - magnitude, down = magnitude - above[-1];
    if (down < up || (down == up && bits % 2 == 1)) --bits;
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000u : 0u));
}

template <typename T>
void check_every_value() {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const T value = std::bit_cast<T>(static_cast<std::uint16_t>(bits));
    const float converted = to_float(value);
    const double expected = value_of<T>(bits);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(converted));
      REQUIRE(bits_of(from_float<T>(converted)) == 0x7FFF);
    } else {
      REQUIRE(static_cast<double>(converted) == expected);
      REQUIRE(std::signbit(converted) == std::signbit(expected));
      REQUIRE(bits_of(from_float<T>(converted)) == bits);
    }
  }
}

template <typename T>
void check_roundings() {
  const auto check = [](float value) {
    if (bits_of(from_float<T>(value)) != nearest<T>(value)) {
      CAPTURE(value, std::bit_cast<std::uint32_t>(value));
      REQUIRE(bits_of(from_float<T>(value)) == nearest<T>(value));
    }
  };
  const float infinity = std::numeric_limits<float>::infinity();
  // Around each number and around each halfway point between neighbours.
  for (std::uint32_t bits = 0; std::isfinite(value_of<T>(bits)); ++bits) {
    const double here = value_of<T>(bits), next = value_of<T>(bits + 1);
    const double halfway = std::isfinite(next) ? (here + next) / 2 : here + (here - value_of<T>(bits - 1)) / 2;
    for (const double point : {here, halfway}) {
      const auto value = static_cast<float>(point);
      for (const float sign : {1.0f, -1.0f}) {
        check(sign * value);
        check(sign * std::nextafter(value, 0.0f));
        check(sign * std::nextafter(value, infinity));
      }
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) check(value);
  }
  CHECK(std::isinf(to_float(from_float<T>(infinity))));
  CHECK(to_float(from_float<T>(-infinity)) == -infinity);
  CHECK(std::isinf(to_float(from_float<T>(std::numeric_limits<float>::max()))));
  CHECK(bits_of(from_float<T>(-std::nanf(""))) == 0x7FFF);
}

TEST_CASE("every half converts to its value and back") { check_every_value<half>(); }
TEST_CASE("every bfloat16 converts to its value and back") { check_every_value<bfloat16>(); }
TEST_CASE("a float rounds to the nearest half, ties to even") { check_roundings<half>(); }
TEST_CASE("a float rounds to the nearest bfloat16, ties to even") { check_roundings<bfloat16>(); }

}  // namespace
}  // namespace trainer::cuda
