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
  if (num_bytes < 0) return "-" + format_bytes(-num_bytes);
  if (num_bytes < 1024) return fmt::format("{} B", num_bytes);
  double value = static_cast<double>(num_bytes);
  std::size_t unit = 0;
  // 1023.995 would print as "1024.00": take the next unit instead.
  while (value >= 1023.995 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, units[unit]);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  std::string unit;
  for (char c : std::string_view(end, text.data() + text.size() - end))
    if (c != ' ' || !unit.empty()) unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));

  constexpr std::array<std::pair<std::string_view, double>, 10> units = {{
      {"", 1.0},
      {"b", 1.0},
      {"kb", 1e3},
      {"mb", 1e6},
      {"gb", 1e9},
      {"tb", 1e12},
      {"kib", 1024.0},
      {"mib", 1024.0 * 1024},
      {"gib", 1024.0 * 1024 * 1024},
      {"tib", 1024.0 * 1024 * 1024 * 1024},
  }};
  for (const auto& [name, factor] : units) {
    if (unit != name) continue;
    const double num_bytes = std::floor(value * factor);
    if (num_bytes > 4611686018427387904.0) return std::nullopt;
    return static_cast<std::int64_t>(num_bytes);
  }
  return std::nullopt;
}

}  // namespace trainer
