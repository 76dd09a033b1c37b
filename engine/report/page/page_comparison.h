#pragma once

#include <string>
#include <vector>

#include "engine/report/memory/memory_json.h"

namespace trainer {

/// What differs between two plans, each the `plan` event: bytes at the peak by category and by layer, in the order of
/// growth, the largest first. {"by_category": [{"name", "first", "second", "growth"}], "by_layer": […]}; the growth of
/// each list adds up to that of the peak.
Json plan_growth(const Json& first, const Json& second);

/// Where resolved configurations differ, as `compare` tells it: [{"key", "values": […]}], the values as texts, where
/// null says that a configuration has no such key.
Json config_rows(const std::vector<Json>& configs);

}  // namespace trainer
