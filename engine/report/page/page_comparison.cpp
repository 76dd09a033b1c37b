#include "engine/report/page/page_comparison.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/report/compare/config_differences.h"

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

Json config_rows(const std::vector<Json>& configs) {
  std::vector<const Json*> present;
  present.reserve(configs.size());
  for (const Json& config : configs) present.push_back(config.is_null() ? nullptr : &config);
  Json json = Json::array();
  for (ConfigDifference& difference : config_differences(present)) {
    Json values = Json::array();
    for (std::size_t i = 0; i < configs.size(); ++i)
      values.push_back(difference.values[i] ? Json(std::move(difference.texts[i])) : Json(nullptr));
    json.push_back({{"key", difference.key}, {"values", std::move(values)}});
  }
  return json;
}

}  // namespace trainer
