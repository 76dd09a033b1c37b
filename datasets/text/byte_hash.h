#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace trainer {

/// A hash for tables in memory, by which nothing is stored or ordered.
inline std::uint64_t byte_hash(std::string_view bytes) {
  constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15U;  // 2^64 / the golden ratio
  const char* from = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = left * multiplier;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * multiplier;
    hash ^= hash >> 32U;
  };
  for (; left >= 8; from += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    mix(word);
  }
  // The last bytes in two reads that may overlap; the length tells the rest apart.
  if (left >= 4) {
    std::uint32_t first = 0, last = 0;
    std::memcpy(&first, from, 4);
    std::memcpy(&last, from + left - 4, 4);
    mix(std::uint64_t{first} << 32U | last);
  } else if (left > 0) {
    const auto byte = [from](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(from[i])}; };
    mix(byte(0) << 16U | byte(left / 2) << 8U | byte(left - 1));
  }
  return hash;
}

}  // namespace trainer
