#include "datasets/arrays/array_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/errors.h"
#include "engine/half.h"

namespace trainer {
namespace {

/// Calls `action` with a value of the element's type.
template <class Action>
decltype(auto) with_array_type(ArrayElement element, const Action& action) {
  switch (element) {
    case ArrayElement::b1:
    case ArrayElement::u8:
      return action(std::uint8_t{});
    case ArrayElement::i8:
      return action(std::int8_t{});
    case ArrayElement::i16:
      return action(std::int16_t{});
    case ArrayElement::i32:
      return action(std::int32_t{});
    case ArrayElement::i64:
      return action(std::int64_t{});
    case ArrayElement::u16:
      return action(std::uint16_t{});
    case ArrayElement::u32:
      return action(std::uint32_t{});
    case ArrayElement::u64:
      return action(std::uint64_t{});
    case ArrayElement::f16:
      return action(Float16{});
    case ArrayElement::bf16:
      return action(BFloat16{});
    case ArrayElement::f32:
      return action(float{});
    case ArrayElement::f64:
      return action(double{});
  }
  throw InternalError("an element has a type");
}

/// The same for whole numbers.
template <class Action>
decltype(auto) with_class_type(ArrayElement element, const Action& action) {
  require_internal(!is_float(element), "classes are whole numbers");
  return with_array_type(element, [&](auto type) {
    if constexpr (std::is_integral_v<decltype(type)>) {
      return action(type);
    } else {
      return decltype(action(std::int64_t{})){};
    }
  });
}

template <class Stored>
Stored load_element(const std::byte* from, std::size_t position) {
  Stored value;
  std::memcpy(&value, from + position * sizeof(value), sizeof(value));
  return value;
}

float number_of(Float16 value) { return to_float(value); }
float number_of(BFloat16 value) { return to_float(value); }
float number_of(double value) {
  constexpr double largest = std::numeric_limits<float>::max(), infinite = std::numeric_limits<double>::infinity();
  return static_cast<float>(std::abs(value) > largest ? std::copysign(infinite, value) : value);
}
template <class Number>
float number_of(Number value) {
  return static_cast<float>(value);
}

template <class Whole>
std::int64_t class_number(Whole value) {
  return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value)
                                            : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

void convert_to_numbers(ArrayElement element, const std::byte* from, std::size_t count, float* to) {
  with_array_type(element, [&](auto type) {
    for (std::size_t i = 0; i < count; ++i) to[i] = number_of(load_element<decltype(type)>(from, i));
  });
}

std::size_t first_not_finite(const float* values, std::size_t count) {
  constexpr std::uint32_t exponent = 0x7F800000;
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < count; ++i)
    any |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(values[i]) & exponent) == exponent);
  if (any == 0) return count;
  return static_cast<std::size_t>(std::find_if(values, values + count, [](float x) { return !std::isfinite(x); }) -
                                  values);
}

std::size_t convert_to_classes(ArrayElement element, const std::byte* from, std::size_t count,
                               const ClassLimits& limits, std::int32_t* to) {
  return with_class_type(element, [&](auto type) -> std::size_t {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t value = class_number(load_element<decltype(type)>(from, i));
      if ((value < 0 || value >= limits.num_classes) && value != limits.ignored) return i;
      to[i] = static_cast<std::int32_t>(value);
    }
    return count;
  });
}

std::int64_t largest_class(ArrayElement element, const std::byte* from, std::size_t count, std::int32_t ignored,
                           std::int64_t least) {
  return with_class_type(element, [&](auto type) -> std::int64_t {
    std::int64_t largest = least;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t value = class_number(load_element<decltype(type)>(from, i));
      if (value > largest && value != ignored) largest = value;
    }
    return largest;
  });
}

std::string element_text(ArrayElement element, const std::byte* from) {
  return with_array_type(element, [&](auto type) {
    const auto value = load_element<decltype(type)>(from, 0);
    if constexpr (std::is_same_v<decltype(type), Float16> || std::is_same_v<decltype(type), BFloat16>) {
      return fmt::format("{}", to_float(value));
    } else {
      return fmt::format("{}", value);
    }
  });
}

}  // namespace trainer
