#pragma once

#include <array>
#include <cstdint>

namespace trainer {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a pure function from a
/// 128-bit counter and a 64-bit key to four random words, so any element's number is computed where it is needed.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// One stream of random words: keyed by `seed`, told apart by `stream` (an op, a parameter, an epoch) and `step`.
struct PhiloxStream {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  std::uint32_t step = 0;
  std::uint64_t first_block = 0;  ///< that block 0 stands for

  /// The four words of elements 4·block … 4·block + 3.
  constexpr std::array<std::uint32_t, 4> words(std::uint64_t block) const {
    block += first_block;
    return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, step},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
  constexpr std::uint32_t word(std::uint64_t element) const { return words(element / 4)[element % 4]; }
  /// Uniform in [0, 1) with 24 random bits.
  constexpr float uniform(std::uint64_t element) const {
    return static_cast<float>(word(element) >> 8) * (1.0F / 16777216.0F);
  }
};

}  // namespace trainer
