#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainer {

/// "8.74 GiB", "512 B": binary units, two decimals from KiB on. For people; machines get integers.
std::string format_bytes(std::int64_t num_bytes);

/// Reads a size: plain bytes, or a number with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB
/// (powers of 1024), case-insensitive; "1.5GiB" and "2 GiB" are fine. Nothing where the text is not a size,
/// is negative, or exceeds 2^62 bytes.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace trainer
