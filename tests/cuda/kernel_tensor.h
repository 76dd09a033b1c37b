#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cuda/kernels/element.h"

namespace trainer::cuda {

/// Elements of `type` for a launcher, in memory of their own, so that the address sanitizer sees what reaches beyond.
/// Until they are written, floating-point ones are NaN and bytes 255.
class KernelTensor {
 public:
  /// `num_skipped`: elements in front, which take away the alignment.
  KernelTensor(DType type, std::int64_t count, std::int64_t num_skipped = 0)
      : type_(type),
        count_(static_cast<std::size_t>(count)),
        skipped_(static_cast<std::size_t>(num_skipped) * size_of(type)),
        memory_(new std::byte[num_bytes() + skipped_]) {
    std::memset(memory_.get(), 0xFF, num_bytes() + skipped_);
  }
  /// Rounded to the type.
  KernelTensor(DType type, const std::vector<double>& values, std::int64_t num_skipped = 0)
      : KernelTensor(type, static_cast<std::int64_t>(values.size()), num_skipped) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (type_ == DType::u8) {
        data<std::uint8_t>()[i] = static_cast<std::uint8_t>(values[i]);
      } else {
        with_element_type(
            type_, [&]<typename T>(ElementType<T>) { data<T>()[i] = from_float<T>(static_cast<float>(values[i])); });
      }
    }
  }

  template <typename T = void>
  T* data() const {
    return reinterpret_cast<T*>(memory_.get() + skipped_);
  }

  std::vector<double> values() const {
    std::vector<double> values;
    for (std::size_t i = 0; i < count_; ++i) {
      if (type_ == DType::u8) {
        values.push_back(data<std::uint8_t>()[i]);
      } else {
        with_element_type(
            type_, [&]<typename T>(ElementType<T>) { values.push_back(static_cast<double>(to_float(data<T>()[i]))); });
      }
    }
    return values;
  }

  friend bool operator==(const KernelTensor& a, const KernelTensor& b) {
    return a.num_bytes() == b.num_bytes() && std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
  }

 private:
  std::size_t num_bytes() const { return count_ * size_of(type_); }

  DType type_;
  std::size_t count_, skipped_;
  std::unique_ptr<std::byte[]> memory_;
};

/// Uniform in [low, high), the same for the same seed.
inline std::vector<double> random_numbers(std::int64_t count, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(distribution(random));
  return numbers;
}

/// The largest |actual − expected| / (1 + |expected|); infinite where just one of the two is NaN or the counts differ.
inline double difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  double largest = actual.size() == expected.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < actual.size() && i < expected.size(); ++i) {
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    const double error = std::fabs(actual[i] - expected[i]) / (1 + std::fabs(expected[i]));
    largest = std::isnan(error) ? HUGE_VAL : std::max(largest, error);
  }
  return largest;
}

/// What storing a number of about 1 in `type` may change, with room for the arithmetic in f32 before it.
inline double tolerance_of(DType type) {
  if (type == DType::f16) return 1e-3;
  if (type == DType::bf16) return 8e-3;
  return 2e-5;
}

inline constexpr DType element_types[] = {DType::f32, DType::f16, DType::bf16};

}  // namespace trainer::cuda
