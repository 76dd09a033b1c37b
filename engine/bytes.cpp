#include "engine/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace trainer {

std::string format_bytes(std::int64_t num_bytes) {
  constexpr std::array<const char*, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (num_bytes > -1024 && num_bytes < 1024) return fmt::format("{} B", num_bytes);
  // As a double, since the lowest integer has no positive counterpart.
  double value = std::abs(static_cast<double>(num_bytes));
  std::size_t unit = 0;
  // 1023.995 would print as "1024.00": take the next unit instead.
  while (value >= 1023.995 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{}{:.2f} {}", num_bytes < 0 ? "-" : "", value, units[unit]);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  // A long double holds every integer up to 2^62.
  long double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  std::string unit;
  for (char c : std::string_view(end, text.data() + text.size() - end))
    if (c != ' ' || !unit.empty()) unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));

  constexpr std::array<std::pair<std::string_view, long double>, 14> units = {{
      {"", 1.0L},
      {"b", 1.0L},
      {"kb", 1e3L},
      {"mb", 1e6L},
      {"gb", 1e9L},
      {"tb", 1e12L},
      {"k", 1024.0L},  // as nvidia-smi, Slurm and ulimit mean it
      {"m", 1024.0L * 1024},
      {"g", 1024.0L * 1024 * 1024},
      {"t", 1024.0L * 1024 * 1024 * 1024},
      {"kib", 1024.0L},
      {"mib", 1024.0L * 1024},
      {"gib", 1024.0L * 1024 * 1024},
      {"tib", 1024.0L * 1024 * 1024 * 1024},
  }};
  for (const auto& [name, factor] : units) {
    if (unit != name) continue;
    // Nearest, not down: 4.35 has no exact form, and 4.35 KB are 4350 bytes.
    const long double num_bytes = std::round(value * factor);
    if (num_bytes > 4611686018427387904.0L) return std::nullopt;
    return static_cast<std::int64_t>(num_bytes);
  }
  return std::nullopt;
}

}  // namespace trainer
