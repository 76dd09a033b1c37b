#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainer {

// Numbers at an offset of a file; the caller has checked that they are there.

inline std::uint32_t byte_at(std::span<const std::byte> file, std::size_t at) {
  return std::to_integer<std::uint32_t>(file[at]);
}
inline std::uint32_t big_endian16(std::span<const std::byte> file, std::size_t at) {
  return byte_at(file, at) << 8 | byte_at(file, at + 1);
}
inline std::uint32_t big_endian32(std::span<const std::byte> file, std::size_t at) {
  return big_endian16(file, at) << 16 | big_endian16(file, at + 2);
}
inline std::uint32_t little_endian16(std::span<const std::byte> file, std::size_t at) {
  return byte_at(file, at) | byte_at(file, at + 1) << 8;
}
inline std::uint32_t little_endian32(std::span<const std::byte> file, std::size_t at) {
  return little_endian16(file, at) | little_endian16(file, at + 2) << 16;
}

}  // namespace trainer
