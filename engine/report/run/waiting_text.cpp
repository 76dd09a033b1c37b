#include "engine/report/run/waiting_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {

std::string waiting_share(double data_seconds, double seconds, double least_seconds) {
  constexpr double least_share = 0.05;
  if (data_seconds < least_seconds || data_seconds < least_share * seconds || seconds <= 0) return "";
  return fmt::format("{:.0f} %", 100 * std::min(1.0, data_seconds / seconds));
}

}  // namespace trainer
