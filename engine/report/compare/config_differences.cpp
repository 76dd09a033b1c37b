#include "engine/report/compare/config_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "engine/config/text/json_output.h"

namespace trainer {
namespace {

std::string text_of_value(const Json& value) { return value.is_string() ? value.get<std::string>() : json_text(value); }

/// Which item is the first that is not the same in all lists; lists may end there.
std::size_t first_other_item(const std::vector<const Json*>& lists) {
  const Json& first = *lists.front();
  for (std::size_t i = 0; i < first.size(); ++i)
    for (const Json* list : lists)
      if (i >= list->size() || (*list)[i] != first[i]) return i;
  return first.size();
}

class DifferenceSearch {
 public:
  /// `values`: one for each configuration; null where it has none.
  void look_at(const std::string& key, const std::vector<const Json*>& values) {
    std::vector<const Json*> present;
    for (const Json* value : values)
      if (value != nullptr) present.push_back(value);
    const auto are_all = [&](auto is) { return std::all_of(present.begin(), present.end(), is); };
    const bool all_have_it = present.size() == num_configs_;
    if (present.empty() || (all_have_it && are_all([&](const Json* value) { return *value == *present.front(); })))
      return;
    if (are_all([](const Json* value) { return value->is_object(); }))
      look_into_objects(key, values);
    else if (all_have_it && are_all([](const Json* value) { return value->is_array(); }))
      look_into_lists(key, values, present);
    else
      add(key, values, "");
  }

  std::vector<ConfigDifference> find(const std::vector<const Json*>& configs) {
    num_configs_ = configs.size() - static_cast<std::size_t>(std::count(configs.begin(), configs.end(), nullptr));
    look_at("", configs);
    return std::move(found_);
  }

 private:
  void look_into_objects(const std::string& key, const std::vector<const Json*>& values) {
    std::unordered_set<std::string> seen;
    for (const Json* object : values) {
      if (object == nullptr) continue;
      for (const auto& item : object->items()) {
        if (!seen.insert(item.key()).second) continue;
        std::vector<const Json*> inner;
        for (const Json* other : values) {
          const bool has_it = other != nullptr && other->contains(item.key());
          inner.push_back(has_it ? &(*other)[item.key()] : nullptr);
        }
        look_at(key.empty() ? item.key() : key + "." + item.key(), inner);
      }
    }
  }

  void look_into_lists(const std::string& key, const std::vector<const Json*>& values,
                       const std::vector<const Json*>& present) {
    const std::size_t length = present.front()->size();
    const bool has_one_length =
        std::all_of(present.begin(), present.end(), [&](const Json* list) { return list->size() == length; });
    const auto is_plain = [](const Json& item) { return !item.is_object() && !item.is_array(); };
    const bool all_plain = std::all_of(present.begin(), present.end(), [&](const Json* list) {
      return std::all_of(list->begin(), list->end(), is_plain);
    });
    if (all_plain) return add(key, values, "");
    if (!has_one_length) return add(key, values, "item");
    for (std::size_t i = 0; i < length; ++i) {
      std::vector<const Json*> inner;
      inner.reserve(values.size());
      for (const Json* list : values) inner.push_back(list == nullptr ? nullptr : &(*list)[i]);
      look_at(fmt::format("{}.{}", key, i), inner);
    }
  }

  /// `counted`: what items of lists are called whose number is told; empty: the whole value is.
  void add(const std::string& key, const std::vector<const Json*>& values, const std::string& counted) {
    ConfigDifference difference;
    difference.key = key;
    difference.is_name = key == "name" || key == "output" || key == "logging" || key.starts_with("logging.");
    std::size_t other_item = 0;
    if (!counted.empty()) {
      std::vector<const Json*> present;
      std::copy_if(values.begin(), values.end(), std::back_inserter(present), [](const Json* value) { return value; });
      other_item = first_other_item(present);
    }
    for (const Json* value : values) {
      difference.values.push_back(value == nullptr ? std::nullopt : std::optional(*value));
      if (value == nullptr)
        difference.texts.emplace_back("-");
      else if (counted.empty())
        difference.texts.push_back(text_of_value(*value));
      else
        difference.texts.push_back(
            fmt::format("{} {}s; {}: {}", value->size(), counted, other_item,
                        other_item < value->size() ? text_of_value((*value)[other_item]) : "none"));
    }
    found_.push_back(std::move(difference));
  }

  std::size_t num_configs_ = 0;
  std::vector<ConfigDifference> found_;
};

}  // namespace

std::string ConfigDifference::last_part() const {
  const std::size_t dot = key.rfind('.');
  if (dot == std::string::npos) return key;
  const std::size_t before = key.rfind('.', dot - 1);
  const bool is_in_item = dot > 0 && before != std::string::npos && key.starts_with("model.");
  return key.substr((is_in_item ? before : dot) + 1);
}

std::vector<ConfigDifference> config_differences(const std::vector<const Json*>& configs) {
  return DifferenceSearch().find(configs);
}

}  // namespace trainer
