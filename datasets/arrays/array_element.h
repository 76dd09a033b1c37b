#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainer {

/// Types of the elements of arrays in files that samples and targets are made of.
enum class ArrayElement : std::uint8_t { b1, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 };

constexpr std::size_t size_of(ArrayElement element) {
  switch (element) {
    case ArrayElement::b1:
    case ArrayElement::i8:
    case ArrayElement::u8:
      return 1;
    case ArrayElement::i16:
    case ArrayElement::u16:
    case ArrayElement::f16:
    case ArrayElement::bf16:
      return 2;
    case ArrayElement::i32:
    case ArrayElement::u32:
    case ArrayElement::f32:
      return 4;
    case ArrayElement::i64:
    case ArrayElement::u64:
    case ArrayElement::f64:
      return 8;
  }
  return 0;
}

/// NumPy's name.
constexpr std::string_view name_of(ArrayElement element) {
  constexpr std::string_view names[] = {"bool",   "int8",   "int16",   "int32",    "int64",   "uint8",  "uint16",
                                        "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
  return names[static_cast<std::size_t>(element)];
}

constexpr bool is_float(ArrayElement element) { return element >= ArrayElement::f16; }

}  // namespace trainer
