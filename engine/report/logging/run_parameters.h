#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/report/logging/event_message.h"

namespace trainer {

/// What a run is compared by with others: optimizer, rates, batches, length and seed, and every key that `overrides`
/// set, as the command line and the points of a sweep do, but for where a run writes and what it logs. Values are those
/// of the resolved configuration (JSON); one that is no number, word or boolean is its JSON.
std::vector<Hyperparameter> run_parameters(const std::string& resolved_json, std::span<const std::string> overrides);

}  // namespace trainer
