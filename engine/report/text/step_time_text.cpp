#include "engine/report/text/step_time_text.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/report/text/style.h"
#include "engine/trainer_command.h"

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
  const std::string bench = trainer_command("bench");
  switch (origin) {
    case MachineRates::Origin::assumed:
      return source.empty()
                 ? fmt::format("The time is assumed for a machine like this; '{}' measures this one.", bench)
                 : fmt::format("The time is assumed for {}, since no profile is of this machine; '{}' measures it.",
                               source, bench);
    case MachineRates::Origin::profile:
      return "The time follows from the published peaks of that GPU and the shares of them that kernels usually reach.";
    case MachineRates::Origin::measured:
      return fmt::format("The time follows from what '{}' measured on this machine{}.", bench,
                         source.empty() ? "" : " (" + source + ")");
  }
  return "";
}

}  // namespace trainer
