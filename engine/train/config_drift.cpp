#include "engine/train/config_drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "engine/errors.h"

namespace trainer {
namespace {

/// A key here may change with everything below it.
constexpr std::array<std::string_view, 12> harmless = {"name",
                                                       "output",
                                                       "device",
                                                       "memory",
                                                       "checkpoint",
                                                       "train.epochs",
                                                       "train.steps",
                                                       "train.log_every",
                                                       "train.eval_every",
                                                       "train.eval_batch_size",
                                                       "train.early_stopping",
                                                       "extends"};

bool is_harmless(std::string_view key) {
  return std::any_of(harmless.begin(), harmless.end(), [&](std::string_view prefix) {
    return key == prefix || (key.starts_with(prefix) && key[prefix.size()] == '.');
  });
}

std::string shown(const nlohmann::json* value) {
  if (value == nullptr) return "not set";
  std::string text = value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

void compare(const nlohmann::json* saved, const nlohmann::json* current, const std::string& key,
             std::vector<std::string>& drift) {
  if (is_harmless(key)) return;
  const bool objects = saved != nullptr && current != nullptr && saved->is_object() && current->is_object();
  if (!objects) {
    const bool equal = saved != nullptr && current != nullptr && *saved == *current;
    if (!equal) drift.push_back(fmt::format("{} (was {}, is {})", key, shown(saved), shown(current)));
    return;
  }
  std::set<std::string> keys;
  for (const auto& item : saved->items()) keys.insert(item.key());
  for (const auto& item : current->items()) keys.insert(item.key());
  for (const std::string& name : keys) {
    const auto find = [&](const nlohmann::json& object) {
      const auto found = object.find(name);
      return found == object.end() ? nullptr : &*found;
    };
    compare(find(*saved), find(*current), key.empty() ? name : key + "." + name, drift);
  }
}

}  // namespace

std::vector<std::string> find_config_drift(const std::string& saved_json, const std::string& current_json) {
  const nlohmann::json saved = nlohmann::json::parse(saved_json, nullptr, false);
  const nlohmann::json current = nlohmann::json::parse(current_json, nullptr, false);
  if (saved.is_discarded()) throw DataError("the checkpoint's configuration is not JSON");
  require_internal(!current.is_discarded(), "the resolved configuration is JSON");
  std::vector<std::string> drift;
  compare(&saved, &current, "", drift);
  return drift;
}

}  // namespace trainer
