#pragma once

#include <cstdint>

namespace trainer {

struct Rotation {
  float cosine = 1, sine = 0;
};

/// By `angle`, in radians and below 2^20 in magnitude, to the nearest f32 but for one unit in the last place: one
/// function without branches or tables, so that every device has the same bits.
constexpr Rotation rotation_of(float angle) {
  constexpr double round_bias = 6755399441055744.0;  // 1.5 · 2^52: adding it rounds to an integer
  const auto exact = static_cast<double>(angle);
  const double biased = exact * 0.63661977236758134 + round_bias;
  const double quarters = biased - round_bias;
  const double r = exact - quarters * 1.5707963267948966;
  const double s = r * r;
  // Taylor's, to 1e-10 for |r| ≤ π / 4.
  const double sine = r * (1 + s * (-1.0 / 6 + s * (1.0 / 120 + s * (-1.0 / 5040 + s * (1.0 / 362880)))));
  const double cosine =
      1 + s * (-1.0 / 2 + s * (1.0 / 24 + s * (-1.0 / 720 + s * (1.0 / 40320 - s * (1.0 / 3628800)))));
  const auto quadrant = static_cast<std::int32_t>(quarters) & 3;
  const double x = (quadrant & 1) != 0 ? sine : cosine, y = (quadrant & 1) != 0 ? cosine : sine;
  return {static_cast<float>(quadrant == 1 || quadrant == 2 ? -x : x), static_cast<float>(quadrant >= 2 ? -y : y)};
}

/// Llama 3.1's rule for positions beyond those that were trained (transformers' rope type `llama3`): an angle that
/// turns at most low_freq_factor times in original_length positions grows `factor` times slower, one that turns at
/// least high_freq_factor times as before, and what lies between by a share of both.
struct RotaryStretch {
  double factor = 1;  ///< 1: nothing is stretched
  double low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_length = 8192;

  /// What an angle grows by from a position to the next, given what it grows by unstretched.
  constexpr double operator()(double frequency) const {
    constexpr double whole_turn = 6.283185307179586;
    const double turns = static_cast<double>(original_length) * frequency / whole_turn;
    if (factor == 1 || turns > high_freq_factor) return frequency;
    if (turns < low_freq_factor) return frequency / factor;
    const double share = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
    return (1 - share) * frequency / factor + share * frequency;
  }
  friend constexpr bool operator==(const RotaryStretch&, const RotaryStretch&) = default;
};

}  // namespace trainer
