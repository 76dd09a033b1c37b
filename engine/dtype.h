#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainer {

/// Element types of tensors. `u8` holds image pixels, `i32` class labels and pooling indices.
enum class DType : std::uint8_t { f32, f16, bf16, u8, i32, i64, f64 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::u8:
      return 1;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::i64:
    case DType::f64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::f64:
      return "f64";
  }
  return "?";
}

}  // namespace trainer
