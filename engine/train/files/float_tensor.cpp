#include "engine/train/files/float_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace trainer {
namespace {

/// An exponent of ones: infinite or not a number.
bool has_all_bits(const std::uint16_t* values, std::int64_t count, std::uint16_t exponent) {
  return std::any_of(values, values + count, [&](std::uint16_t value) { return (value & exponent) == exponent; });
}

}  // namespace

bool all_finite(const TensorType& type, const std::byte* bytes) {
  const std::int64_t count = type.num_elements();
  if (type.dtype == DType::f16) return !has_all_bits(reinterpret_cast<const std::uint16_t*>(bytes), count, 0x7C00);
  if (type.dtype == DType::bf16) return !has_all_bits(reinterpret_cast<const std::uint16_t*>(bytes), count, 0x7F80);
  if (type.dtype != DType::f32) return true;
  const auto* values = reinterpret_cast<const float*>(bytes);
  return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
}

}  // namespace trainer
