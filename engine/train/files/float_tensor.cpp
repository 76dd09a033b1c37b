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
  const auto are_finite = [&](const auto* values) {
    return std::all_of(values, values + count, [](auto value) { return std::isfinite(value); });
  };
  if (type.dtype == DType::f64) return are_finite(reinterpret_cast<const double*>(bytes));
  return type.dtype != DType::f32 || are_finite(reinterpret_cast<const float*>(bytes));
}

}  // namespace trainer
