#include "tests/op_cases/short_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/errors.h"

namespace trainer {

namespace {

struct Format {
  int fraction_bits;
  int least_exponent;  ///< of a normal number
  int most_exponent;
};

Format format_of(DType type) {
  require_internal(type == DType::f16 || type == DType::bf16, "a 16-bit format is asked for");
  return type == DType::f16 ? Format{10, -14, 15} : Format{7, -126, 127};
}

/// The exponent of the last place of a number as large as `value`.
int last_place(const Format& format, double value) {
  return std::max(std::ilogb(value), format.least_exponent) - format.fraction_bits;
}

}  // namespace

double rounding_of(DType type) {
  if (type != DType::f16 && type != DType::bf16) return 0;
  return std::ldexp(1.0, -format_of(type).fraction_bits - 1);
}

double round_to(DType type, double value) {
  const Format format = format_of(type);
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::ldexp(1.0, last_place(format, value));
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::fabs(rounded) < std::ldexp(1.0, format.most_exponent + 1)) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

std::vector<double> rounded_to(DType type, std::vector<double> values) {
  if (type == DType::f32) return values;
  for (double& value : values) value = round_to(type, value);
  return values;
}

std::uint16_t bits_of(DType type, double value) {
  const Format format = format_of(type);
  if (std::isnan(value)) return 0x7FFF;
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  const double magnitude = std::fabs(value);
  const auto infinity = static_cast<unsigned>(format.most_exponent - format.least_exponent + 2) << format.fraction_bits;
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
  if (magnitude == 0) return static_cast<std::uint16_t>(sign);
  const int place = last_place(format, magnitude);
  // Units of the last place; a normal number's leading 1 adds to the exponent, which therefore starts one lower.
  const auto units = static_cast<unsigned>(std::ldexp(magnitude, -place));
  const auto exponent = static_cast<unsigned>(place + format.fraction_bits - format.least_exponent);
  return static_cast<std::uint16_t>(sign | (units + (exponent << format.fraction_bits)));
}

double number_of(DType type, std::uint16_t bits) {
  const Format format = format_of(type);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const unsigned magnitude = bits & 0x7FFFU;
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const auto fraction = static_cast<double>(magnitude & ((1U << format.fraction_bits) - 1));
  const double whole = std::ldexp(1.0, format.fraction_bits);
  if (exponent == format.most_exponent - format.least_exponent + 2)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction / whole, format.least_exponent);
  return sign * std::ldexp(1 + fraction / whole, format.least_exponent + exponent - 1);
}

}  // namespace trainer
