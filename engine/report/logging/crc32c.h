#pragma once

#include <cstdint>
#include <string_view>

namespace trainer {

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of the bytes.
std::uint32_t crc32c(std::string_view bytes);

/// As records of event files have it, so that the checksum of data that holds checksums means something: rotated by 15
/// bits, and a constant added.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace trainer
