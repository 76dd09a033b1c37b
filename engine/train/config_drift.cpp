#include "engine/train/config_drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "engine/config/text/json_input.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// A key here may change with everything below it. The data's size is compared where the data is at hand.
constexpr std::array<std::string_view, 24> harmless = {"name",
                                                       "output",
                                                       "device",
                                                       "memory.limit",
                                                       "memory.allocator",
                                                       "memory.expandable_segments",
                                                       "memory.in_place",
                                                       "memory.recompute_cheap",
                                                       "memory.update",
                                                       "memory.offload",
                                                       "memory.preflight",
                                                       "memory.on_oom",
                                                       "data.root",
                                                       "data.train",
                                                       "data.train_labels",
                                                       "data.validation",
                                                       "data.validation_labels",
                                                       "checkpoint.every",
                                                       "checkpoint.keep",
                                                       "train.checkpointing",
                                                       "train.log_every",
                                                       "train.eval_every",
                                                       "train.eval_batch_size",
                                                       "train.early_stopping"};

/// What sets the length of a run.
constexpr std::array<std::string_view, 2> length_keys = {"train.epochs", "train.steps"};

bool is_harmless(std::string_view key) {
  const bool sets_length = std::find(length_keys.begin(), length_keys.end(), key) != length_keys.end();
  return sets_length || std::any_of(harmless.begin(), harmless.end(), [&](std::string_view prefix) {
           return key == prefix || (key.starts_with(prefix) && key[prefix.size()] == '.');
         });
}

const nlohmann::json* find(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool are_equal(const nlohmann::json* saved, const nlohmann::json* current) {
  return saved == nullptr || current == nullptr ? saved == current : *saved == *current;
}

std::string shown(const nlohmann::json* value) {
  if (value == nullptr) return "not set";
  std::string text = value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

void compare(const nlohmann::json* saved, const nlohmann::json* current, const std::string& key,
             std::vector<std::string>& drift) {
  if (is_harmless(key)) return;
  const bool arrays = saved != nullptr && current != nullptr && saved->is_array() && current->is_array();
  if (arrays && saved->size() == current->size()) {
    for (std::size_t i = 0; i < saved->size(); ++i)
      compare(&(*saved)[i], &(*current)[i], fmt::format("{}.{}", key, i), drift);
    return;
  }
  const bool objects = saved != nullptr && current != nullptr && saved->is_object() && current->is_object();
  if (!objects) {
    if (!are_equal(saved, current))
      drift.push_back(fmt::format("{} (was {}, is {})", key, shown(saved), shown(current)));
    return;
  }
  std::set<std::string> keys;
  for (const auto& item : saved->items()) keys.insert(item.key());
  for (const auto& item : current->items()) keys.insert(item.key());
  for (const std::string& name : keys) {
    compare(find(*saved, name), find(*current, name), key.empty() ? name : key + "." + name, drift);
  }
}

/// The length of the run, where the schedule's learning rates follow it.
void compare_lengths(const nlohmann::json& saved, const nlohmann::json& current, std::vector<std::string>& drift) {
  const std::string type = current.value("/schedule/type"_json_pointer, "");
  if (type != "cosine" && type != "one_cycle") return;
  const auto value = [](const nlohmann::json& config, std::string_view key) -> const nlohmann::json* {
    const nlohmann::json* train = find(config, "train");
    return train == nullptr ? nullptr : find(*train, key.substr(key.find('.') + 1));
  };
  // Steps, where given, are the length, whatever the epochs say.
  const bool has_steps = value(saved, "train.steps") != nullptr && value(current, "train.steps") != nullptr;
  for (const std::string_view key : length_keys) {
    if (has_steps && key == "train.epochs") continue;
    const nlohmann::json* before = value(saved, key);
    const nlohmann::json* now = value(current, key);
    if (are_equal(before, now)) continue;
    drift.push_back(fmt::format("{} (was {}, is {}; the learning rates of schedule {} follow the length of the run)",
                                key, shown(before), shown(now), type));
  }
}

}  // namespace

std::vector<std::string> find_config_drift(const std::string& saved_json, const std::string& current_json) {
  const auto saved = parse_json<nlohmann::json>(saved_json), current = parse_json<nlohmann::json>(current_json);
  if (!saved) throw DataError("the checkpoint's configuration is not JSON");
  require_internal(current.has_value(), "the resolved configuration is JSON");
  std::vector<std::string> drift;
  compare(&*saved, &*current, "", drift);
  compare_lengths(*saved, *current, drift);
  return drift;
}

std::optional<std::int64_t> saved_batch_size(const std::string& saved_json) {
  const auto saved = parse_json<nlohmann::json>(saved_json);
  const nlohmann::json::json_pointer key("/train/batch_size");
  if (!saved || !saved->contains(key) || !(*saved)[key].is_number_unsigned()) return std::nullopt;
  const auto number = (*saved)[key].get<std::uint64_t>();
  if (number < 1 || number > std::numeric_limits<std::int32_t>::max()) return std::nullopt;  // told as a difference
  return static_cast<std::int64_t>(number);
}

}  // namespace trainer
