#pragma once
// The 16-bit element types where there are no CUDA headers: storage that is converted from and to float, with the
// roundings of CUDA's own types: to nearest, ties to even; too large becomes infinite; every NaN becomes 0x7FFF.

#include <bit>
#include <cstdint>

namespace trainer::cuda {

/// IEEE binary16: 1 sign bit, 5 of exponent, 10 of fraction.
// NOLINTNEXTLINE(readability-identifier-naming): CUDA's name
class half {
 public:
  half() = default;
  explicit half(float value) : bits_(round(value)) {}
  explicit operator float() const {
    const std::uint32_t sign = (bits_ & 0x8000u) << 16;
    const std::uint32_t magnitude = bits_ & 0x7FFFu;
    if (magnitude < 0x0400u) {  // subnormal: a multiple of 2^-24
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
    }
    const std::uint32_t rebias = magnitude < 0x7C00u ? 127 - 15 : 255 - 31;
    return std::bit_cast<float>(sign | ((magnitude << 13) + (rebias << 23)));
  }

 private:
  static std::uint16_t round(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return 0x7FFF;
    // From halfway between the largest number, 65504, and what would follow it.
    if (magnitude >= std::bit_cast<std::uint32_t>(65520.0f)) return static_cast<std::uint16_t>(sign | 0x7C00u);
    if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14f)) {
      // Beside 0.5, a float's last bit is 2^-24, so the addition does the rounding.
      const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000u));
    }
    const std::uint32_t rounded = magnitude - (112u << 23) + 0x0FFFu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | (rounded >> 13));
  }

  std::uint16_t bits_;
};

/// The upper half of a float: 1 sign bit, 8 of exponent, 7 of fraction.
// NOLINTNEXTLINE(readability-identifier-naming): as half
class bfloat16 {
 public:
  bfloat16() = default;
  explicit bfloat16(float value) : bits_(round(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }

 private:
  static std::uint16_t round(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
    return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }

  std::uint16_t bits_;
};

}  // namespace trainer::cuda
