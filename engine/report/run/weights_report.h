#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/report/text/style.h"
#include "engine/train/files/weights_match.h"

namespace trainer {

/// "resnet18.safetensors: 60 tensors loaded, 2 new, 22 ignored": of those there are.
std::string weights_line(const WeightsMatch& match);

/// A row for each tensor, what does not match first: the model's name and shape, what becomes of it, what the file has.
/// Where not `whole`, of long lists those rows that say more than that a tensor was loaded under its name, and a line
/// that counts the others.
/// Every line starts with `indent` spaces.
std::string weights_table(const WeightsMatch& match, bool whole, const Style& style, int indent = 2);

/// Of each frozen network the line behind its name, and the table; empty where there is none.
std::string frozen_text(const std::vector<WeightsMatch>& frozen, bool whole, const Style& style);

/// Of each: {"network", "weights"}.
nlohmann::ordered_json frozen_json(const std::vector<WeightsMatch>& frozen);

/// All of it: {"file", "files", "loaded", "new", "ignored", "mismatched", "tensors": […]}.
nlohmann::ordered_json weights_json(const WeightsMatch& match);

}  // namespace trainer
