#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "datasets/permutation.h"

namespace trainer {

/// The numbers of one sample, or batch, one after the other (Note [Numbers of transforms] in transform_chain.h).
class DrawnNumbers {
 public:
  DrawnNumbers(const PhiloxStream& stream, std::int64_t number)
      : stream_(stream), next_block_(static_cast<std::uint64_t>(number) << 16U) {}

  /// In [0, 1), with 32 random bits.
  double unit() { return word() * 0x1p-32; }
  /// In [from, to), or `from` where both are the same.
  double between(double from, double to) { return from + (to - from) * unit(); }
  /// The logarithm is uniform.
  double log_between(double from, double to) { return std::exp(between(std::log(from), std::log(to))); }
  bool chance(double p) { return unit() < p; }
  /// 0 … count − 1. (No number is favoured by more than count · 2^-32.)
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(count) * word() >> 32U);
  }

 private:
  std::uint32_t word() {
    if (num_used_ == words_.size()) {
      words_ = stream_.words(next_block_++);
      num_used_ = 0;
    }
    return words_[num_used_++];
  }

  PhiloxStream stream_;
  std::uint64_t next_block_;
  std::array<std::uint32_t, 4> words_{};
  std::size_t num_used_ = 4;
};

}  // namespace trainer
