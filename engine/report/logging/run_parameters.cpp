#include "engine/report/logging/run_parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/config/text/json_input.h"

namespace trainer {
namespace {

using ParametersJson = nlohmann::ordered_json;

constexpr std::array usual_parameters = {"optimizer.type",
                                         "optimizer.lr",
                                         "optimizer.momentum",
                                         "optimizer.weight_decay",
                                         "schedule.type",
                                         "loss.type",
                                         "train.batch_size",
                                         "train.epochs",
                                         "train.steps",
                                         "train.accumulation_steps",
                                         "train.amp",
                                         "train.checkpointing",
                                         "seed"};

bool tells_nothing(std::string_view key) { return key == "output" || key == "name" || key.starts_with("logging."); }

/// Null where there is none. A list is addressed by index.
const ParametersJson* find_value(const ParametersJson& config, std::string_view key) {
  const ParametersJson* value = &config;
  while (!key.empty()) {
    const std::string part(key.substr(0, key.find('.')));
    key.remove_prefix(std::min(key.size(), part.size() + 1));
    if (value->is_object() && value->contains(part)) {
      value = &(*value)[part];
    } else if (value->is_array() && !part.empty() && part.size() < 10 &&
               std::all_of(part.begin(), part.end(), [](char letter) { return letter >= '0' && letter <= '9'; }) &&
               std::stoul(part) < value->size()) {
      value = &(*value)[std::stoul(part)];
    } else {
      return nullptr;
    }
  }
  return value->is_null() ? nullptr : value;
}

Hyperparameter parameter_of(std::string name, const ParametersJson& value) {
  using Kind = Hyperparameter::Kind;
  Hyperparameter parameter{.name = std::move(name)};
  if (value.is_boolean()) {
    parameter.kind = Kind::boolean;
    parameter.number = value.get<bool>() ? 1 : 0;
  } else if (value.is_number()) {
    parameter.kind = Kind::number;
    parameter.number = value.get<double>();
  } else {
    parameter.text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, ParametersJson::error_handler_t::replace);
  }
  return parameter;
}

/// As it was given.
Hyperparameter parameter_of(std::string name, const std::string& given) {
  double number = 0;
  const char* const end = given.data() + given.size();
  const auto parsed = std::from_chars(given.data(), end, number);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(number);
  return parameter_of(std::move(name), is_number ? ParametersJson(number) : ParametersJson(given));
}

}  // namespace

std::vector<Hyperparameter> run_parameters(const std::string& resolved_json, std::span<const std::string> overrides) {
  const auto config = parse_json<ParametersJson>(resolved_json);
  std::vector<Hyperparameter> parameters;
  if (!config) return parameters;
  std::set<std::string, std::less<>> seen;
  const auto add = [&](const std::string& key, const std::optional<std::string>& otherwise) {
    if (tells_nothing(key) || !seen.insert(key).second) return;
    if (const ParametersJson* value = find_value(*config, key); value != nullptr)
      parameters.push_back(parameter_of(key, *value));
    else if (otherwise)  // a short form, or a value that others follow from
      parameters.push_back(parameter_of(key, *otherwise));
  };
  for (const std::string& override_text : overrides) {
    const std::size_t equals = std::min(override_text.find('='), override_text.size());
    add(override_text.substr(0, equals), override_text.substr(std::min(equals + 1, override_text.size())));
  }
  for (const char* key : usual_parameters) add(key, std::nullopt);
  return parameters;
}

}  // namespace trainer
