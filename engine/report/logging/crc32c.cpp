#include "engine/report/logging/crc32c.h"

#include <array>
#include <bit>
#include <cstddef>

namespace trainer {
namespace {

constexpr std::uint32_t reversed_polynomial = 0x82f63b78;
constexpr std::size_t num_slices = 8;

/// What a byte does to the checksum, and what it does with 1 to 7 zero bytes behind it, so that 8 bytes are taken at
/// once.
using SliceTables = std::array<std::array<std::uint32_t, 256>, num_slices>;

constexpr SliceTables make_tables() {
  SliceTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? reversed_polynomial : 0);
    tables[0][byte] = rest;
  }
  for (std::size_t slice = 1; slice < num_slices; ++slice)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  return tables;
}

constexpr SliceTables slice_tables = make_tables();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])); };
  std::uint32_t rest = ~std::uint32_t{0};
  std::size_t i = 0;
  for (; i + num_slices <= bytes.size(); i += num_slices) {
    rest ^= at(i) | at(i + 1) << 8U | at(i + 2) << 16U | at(i + 3) << 24U;
    rest = slice_tables[7][rest & 0xffU] ^ slice_tables[6][rest >> 8U & 0xffU] ^ slice_tables[5][rest >> 16U & 0xffU] ^
           slice_tables[4][rest >> 24U] ^ slice_tables[3][at(i + 4)] ^ slice_tables[2][at(i + 5)] ^
           slice_tables[1][at(i + 6)] ^ slice_tables[0][at(i + 7)];
  }
  for (; i < bytes.size(); ++i) rest = (rest >> 8U) ^ slice_tables[0][(rest ^ at(i)) & 0xffU];
  return ~rest;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

}  // namespace trainer
