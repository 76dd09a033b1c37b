#include "engine/report/text/step_time_text.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/report/text/style.h"

namespace trainer {

std::string step_time_text(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return "-";
  if (seconds >= 1) return format_duration(seconds);
  if (seconds >= 0.9995e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} µs", seconds * 1e6);
}

std::string samples_per_second_text(double rate) {
  if (!std::isfinite(rate) || rate <= 0) return "-";
  return rate >= 10 ? format_count(std::llround(rate)) : fmt::format("{:.2g}", rate);
}

std::string rates_sentence(MachineRates::Origin origin, const std::string& source) {
  switch (origin) {
    case MachineRates::Origin::assumed:
      return source.empty()
                 ? "Assumed for a machine like this: 'trainer bench' measures it."
                 : fmt::format("Assumed for {}, since no profile is of this one: 'trainer bench' measures it.", source);
    case MachineRates::Origin::profile:
      return "By the published peaks of that GPU and the shares of them that kernels usually reach.";
    case MachineRates::Origin::measured:
      return "By what 'trainer bench' measured on this machine" + (source.empty() ? "." : " (" + source + ").");
  }
  return "";
}

}  // namespace trainer
