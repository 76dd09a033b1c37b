#include "engine/report/text/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/report/text/style.h"

namespace trainer {

std::string format_rate(double count, double seconds) {
  constexpr double most_counted = 1e15;
  if (seconds <= 0) return "-";
  const double rate = count / seconds;
  if (!(rate < most_counted)) return "-";
  return rate < 100 ? fmt::format("{:.1f}", rate) : format_count(static_cast<std::int64_t>(rate));
}

std::string format_loss(double loss) {
  if (std::isnan(loss)) return "nan";
  return std::abs(loss) < 1e5 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3e}", loss);
}

std::string format_any_loss(double loss) {
  return loss != 0 && std::abs(loss) < 1e-3 ? fmt::format("{:.3e}", loss) : format_loss(loss);
}

std::string format_clock(double seconds) {
  constexpr double day = 86400, most_days = 99999;
  if (!(seconds < most_days * day)) return "-";
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  if (seconds < 4 * day) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace trainer
