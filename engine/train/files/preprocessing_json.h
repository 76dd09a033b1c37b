#pragma once

#include <nlohmann/json.hpp>

#include "engine/config/text/json_input.h"
#include "engine/graph/preprocessing.h"

namespace trainer {

/// Of a table's column: name, kind, categories in order, and what stands for cells without a value.
template <class Json>
Json preprocessed_column_json(const PreprocessedColumn& column) {
  Json json{{"name", column.name}, {"kind", column.is_category ? "category" : "number"}};
  if (column.is_category) {
    json["categories"] = column.categories;
    if (!column.unseen.empty()) json["unseen"] = column.unseen;
    json["missing_category"] = column.has_missing_category;
    if (column.is_missing_unseen) json["missing_unseen"] = true;
    json["unknown"] = column.num_unknown;
  }
  if (column.missing.empty()) return json;
  json["missing"] = {{"rule", column.missing}, {"count", column.num_missing}};
  if (column.fill_number) json["missing"]["fill"] = *column.fill_number;
  if (column.fill_category) json["missing"]["fill"] = *column.fill_category;
  return json;
}

/// As events and checkpoints tell it.
template <class Json>
Json preprocessing_json(const Preprocessing& preprocessing) {
  Json json{{"features", preprocessing.features}, {"mean", preprocessing.mean}, {"std", preprocessing.std}};
  json["target"] = preprocessing.targets.size() == 1 ? preprocessing.targets.front() : "";
  if (preprocessing.targets.size() > 1) json["targets"] = preprocessing.targets;
  json["classes"] = preprocessing.classes;
  if (!preprocessing.origin.empty()) {
    json["origin"] = preprocessing.origin;
    json["offset"] = preprocessing.offset;
  }
  if (!preprocessing.target_mean.empty()) {
    json["target_mean"] = preprocessing.target_mean;
    json["target_std"] = preprocessing.target_std;
  }
  if (preprocessing.columns.empty()) return json;
  json["columns"] = Json::array();
  for (const PreprocessedColumn& column : preprocessing.columns)
    json["columns"].push_back(preprocessed_column_json<Json>(column));
  json["dropped"] = {{"training", preprocessing.num_dropped}, {"validation", preprocessing.num_validation_dropped}};
  return json;
}

/// What preprocessing_json() wrote, also in earlier versions. Throws as JsonInput does.
Preprocessing read_preprocessing(const JsonInput<nlohmann::json>& json);

}  // namespace trainer
