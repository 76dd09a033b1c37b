#pragma once

#include <string>

#include "engine/plan/machine_rates.h"

namespace trainer {

/// "0.12 s", "1.25 ms", "3.1 µs"; "-" where nothing is known.
std::string step_time_text(double seconds);
/// "1,043", "0.52"; "-" where nothing is known.
std::string samples_per_second_text(double rate);
/// Where predicted times come from, as a sentence.
std::string rates_sentence(MachineRates::Origin origin, const std::string& source);

}  // namespace trainer
