#include "engine/report/page/page_comparison.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/config/text/json_output.h"

namespace trainer {
namespace {

/// Named bytes of both, in the order in which they are met.
class GrowthTable {
 public:
  void add(const std::string& name, std::int64_t num_bytes, std::size_t column) {
    const auto [found, is_new] = places_.emplace(name, rows_.size());
    if (is_new) rows_.push_back({name, {0, 0}});
    rows_[found->second].second[column] += num_bytes;
  }
  Json by_growth() {
    const auto growth = [](const Row& row) { return row.second[1] - row.second[0]; };
    std::stable_sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) { return growth(a) > growth(b); });
    Json json = Json::array();
    for (const Row& row : rows_)
      json.push_back(
          {{"name", row.first}, {"first", row.second[0]}, {"second", row.second[1]}, {"growth", growth(row)}});
    return json;
  }

 private:
  using Row = std::pair<std::string, std::array<std::int64_t, 2>>;
  std::vector<Row> rows_;
  std::map<std::string, std::size_t> places_;
};

using KeyValues = std::vector<std::pair<std::string, std::string>>;

void add_keys(const Json& value, const std::string& key, KeyValues& values) {
  const std::string prefix = key.empty() ? "" : key + '.';
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, inner] : value.items()) add_keys(inner, prefix + name, values);
  } else if (value.is_array() && !value.empty() &&
             std::any_of(value.begin(), value.end(), [](const Json& entry) { return entry.is_structured(); })) {
    for (std::size_t i = 0; i < value.size(); ++i) add_keys(value[i], prefix + std::to_string(i), values);
  } else {
    values.emplace_back(key, value.is_string() ? value.get<std::string>() : json_text(value));
  }
}

}  // namespace

Json plan_growth(const Json& first, const Json& second) {
  GrowthTable categories, layers;
  for (std::size_t column = 0; column < 2; ++column) {
    const Json& plan = column == 0 ? first : second;
    for (const auto& [name, bytes] : plan.at("by_category").items())
      categories.add(name, bytes.get<std::int64_t>(), column);
    for (const Json& layer : plan.at("by_layer"))
      layers.add(layer.at("layer").get<std::string>(), layer.at("bytes").get<std::int64_t>(), column);
  }
  return {{"by_category", categories.by_growth()}, {"by_layer", layers.by_growth()}};
}

Json config_differences(const std::vector<Json>& configs) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<Json>> by_key;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    KeyValues values;
    add_keys(configs[i], "", values);
    for (auto& [key, value] : values) {
      const auto [found, is_new] = by_key.emplace(key, std::vector<Json>(configs.size()));
      if (is_new) order.push_back(key);
      found->second[i] = std::move(value);
    }
  }
  Json json = Json::array();
  for (const std::string& key : order) {
    const std::vector<Json>& values = by_key.at(key);
    if (std::all_of(values.begin(), values.end(), [&](const Json& value) { return value == values.front(); })) continue;
    json.push_back({{"key", key}, {"values", values}});
  }
  return json;
}

}  // namespace trainer
