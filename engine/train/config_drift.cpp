#include "engine/train/config_drift.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <type_traits>

#include "engine/config/key_effects.h"
#include "engine/config/text/json_input.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// Whether one key lies in the section or the value of another.
bool lies_in(std::string_view key, std::string_view other) {
  return key.starts_with(other) && key.substr(other.size()).starts_with('.');
}

/// Whether a key, or every key of a section, may change. The data's size is compared where the data is at hand.
bool may_change(std::string_view key) {
  bool is_known = false;
  for (const KeyEffects& each : key_effects()) {
    if (key != each.key && !lies_in(key, each.key) && !lies_in(each.key, key)) continue;
    if (each.on_resume == ResumeEffect::changes_numbers) return false;
    is_known = true;
  }
  return is_known;
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
  if (may_change(key)) return;
  const bool arrays = saved != nullptr && current != nullptr && saved->is_array() && current->is_array();
  if (arrays && saved->size() == current->size()) {
    for (std::size_t i = 0; i < saved->size(); ++i)
      compare(&(*saved)[i], &(*current)[i], fmt::format("{}.{}", key, i), drift);
    return;
  }
  if (arrays) {
    drift.push_back(fmt::format("{} (was a list of {}, is one of {})", key, saved->size(), current->size()));
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
  for (const KeyEffects& each : key_effects()) {
    if (each.on_resume != ResumeEffect::sets_length || (has_steps && each.key == "train.epochs")) continue;
    const nlohmann::json* before = value(saved, each.key);
    const nlohmann::json* now = value(current, each.key);
    if (are_equal(before, now)) continue;
    drift.push_back(fmt::format("{} (was {}, is {}; the learning rates of schedule {} follow the length of the run)",
                                each.key, shown(before), shown(now), type));
  }
}

/// Layer groups, where a rate follows them; what they freeze shows in the tensors that there are.
void compare_groups(const nlohmann::json& saved, const nlohmann::json& current, std::vector<std::string>& drift) {
  const nlohmann::json::json_pointer groups("/model/groups");
  for (const char* const key : {"/optimizer/lr", "/optimizer/weight_decay"}) {
    const nlohmann::json::json_pointer rate(key);
    if (!current.contains(rate) || !current[rate].is_object()) continue;
    const nlohmann::json* const before = saved.contains(groups) ? &saved[groups] : nullptr;
    const nlohmann::json* const now = current.contains(groups) ? &current[groups] : nullptr;
    if (!are_equal(before, now))
      drift.push_back(fmt::format("model.groups (was {}, is {})", shown(before), shown(now)));
    return;
  }
}

template <typename Value>
Value value_at(const nlohmann::json& config, const char* pointer, Value otherwise) {
  const nlohmann::json::json_pointer place(pointer);
  if (!config.contains(place)) return otherwise;
  const nlohmann::json& value = config[place];
  const bool has_type = std::is_same_v<Value, bool>          ? value.is_boolean()
                        : std::is_same_v<Value, std::string> ? value.is_string()
                                                             : value.is_number();
  if (!has_type)
    throw DataError(fmt::format("the checkpoint's configuration has no such {}: {}", pointer, shown(&value)));
  return value.get<Value>();
}

/// What of a configuration says how ranks share a batch.
struct BatchSharing {
  bool is_deterministic = false;
  std::int64_t num_parts = 1;       ///< that are computed apart
  std::int64_t num_norm_parts = 1;  ///< that a batch norm sees apart
  std::string text;                 ///< "shared by 2 ranks"
};

BatchSharing sharing_of(const nlohmann::json& config) {
  BatchSharing sharing;
  sharing.is_deterministic = value_at(config, "/parallel/deterministic", false);
  const auto num_ranks = value_at(config, "/parallel/data", std::int64_t{1});
  sharing.num_parts = sharing.is_deterministic ? value_at(config, "/parallel/parts", std::int64_t{1}) : num_ranks;
  const bool syncs = num_ranks > 1 && value_at(config, "/parallel/sync_batchnorm", false);
  sharing.num_norm_parts = syncs ? 1 : sharing.num_parts;
  if (sharing.is_deterministic) {
    sharing.text = fmt::format("cut into {} part{} (parallel.deterministic)", sharing.num_parts,
                               sharing.num_parts == 1 ? "" : "s");
    return sharing;
  }
  sharing.text = num_ranks == 1 ? "of one process" : fmt::format("shared by {} ranks", num_ranks);
  if (const auto num_tensor = value_at(config, "/parallel/tensor", std::int64_t{1}); num_tensor > 1)
    sharing.text += fmt::format(", its layers shared by {}", num_tensor);
  if (syncs) sharing.text += " (parallel.sync_batchnorm)";
  // What else rounds in the order of the parts that ranks have of the model.
  const auto shard = value_at<std::string>(config, "/parallel/shard", "none");
  const bool has_norm_of_parts = value_at(config, "/train/clip_norm", 0.0) > 0 ||
                                 value_at<std::string>(config, "/train/amp", "off") == "fp16" ||
                                 value_at(config, "/train/accumulation_steps", std::int64_t{1}) > 1;
  if (num_ranks > 1 && shard != "none" && has_norm_of_parts)
    sharing.text += fmt::format(" (parallel.shard: {})", shard);
  return sharing;
}

/// What a configuration of before there were averages says of them.
void add_newer_keys(nlohmann::json& saved, const nlohmann::json& current) {
  if (saved.is_object() && !saved.contains("average") && current.contains("average"))
    saved["average"] = {{"type", "off"}};
}

}  // namespace

std::vector<std::string> find_config_drift(const std::string& saved_json, const std::string& current_json) {
  auto saved = parse_json<nlohmann::json>(saved_json);
  const auto current = parse_json<nlohmann::json>(current_json);
  if (!saved) throw DataError("the checkpoint's configuration is not JSON");
  require_internal(current.has_value(), "the resolved configuration is JSON");
  add_newer_keys(*saved, *current);
  std::vector<std::string> drift;
  compare(&*saved, &*current, "", drift);
  compare_lengths(*saved, *current, drift);
  compare_groups(*saved, *current, drift);
  return drift;
}

SharingDrift find_sharing_drift(const std::string& saved_json, const std::string& current_json) {
  const auto saved = parse_json<nlohmann::json>(saved_json);
  const auto current = parse_json<nlohmann::json>(current_json);
  require_internal(saved && current, "configurations that were compared are JSON");
  const BatchSharing before = sharing_of(*saved), now = sharing_of(*current);
  if (before.text == now.text) return {};
  return {.text = fmt::format("batches are {} (were {})", now.text, before.text),
          .cuts_otherwise = before.num_parts != now.num_parts,
          .norms_see_others = before.num_norm_parts != now.num_norm_parts};
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
