#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "engine/philox.h"

namespace trainer {

/// Philox streams of the data, told apart from those of parameters and ops, which count from 0.
inline constexpr std::uint32_t shuffle_stream = 0xDA7A0001;
inline constexpr std::uint32_t split_stream = 0xDA7A0002;
inline constexpr std::uint32_t synthetic_prototype_stream = 0xDA7A0003;
inline constexpr std::uint32_t synthetic_noise_stream = 0xDA7A0004;
inline constexpr std::uint32_t synthetic_target_stream = 0xDA7A0005;
inline constexpr std::uint32_t transform_stream = 0xDA7A0006;
inline constexpr std::uint32_t window_stream = 0xDA7A0007;
inline constexpr std::uint32_t mixing_stream = 0xDA7A0008;
inline constexpr std::uint32_t token_offset_stream = 0xDA7A0009;
inline constexpr std::uint32_t token_mask_stream = 0xDA7A000A;

/// Puts what is in `order` into another order: Fisher–Yates with the 64-bit numbers of the stream's blocks from `first`
/// + 2 on. (The remainder favours small indices by less than 2^-32.)
inline void shuffle_by(const PhiloxStream& stream, std::uint64_t first, std::span<std::uint32_t> order) {
  for (std::size_t i = order.size(); i > 1; --i) {
    const auto words = stream.words(first + i);
    const std::uint64_t random = std::uint64_t{words[0]} << 32 | words[1];
    std::swap(order[i - 1], order[random % i]);
  }
}

/// Fills `order` with a permutation of 0 … size − 1.
inline void fill_permutation(std::span<std::uint32_t> order, const PhiloxStream& stream) {
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  shuffle_by(stream, 0, order);
}

}  // namespace trainer
