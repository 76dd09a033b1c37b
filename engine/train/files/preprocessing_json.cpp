#include "engine/train/files/preprocessing_json.h"

#include <cstdint>

namespace trainer {
namespace {

/// More rows than any table has.
constexpr std::int64_t most_samples_told = 1'000'000'000'000'000;

std::vector<std::string> read_texts(const JsonInput<nlohmann::json>& json) {
  std::vector<std::string> texts;
  for (const auto& each : json.items()) texts.push_back(each.text());
  return texts;
}

std::vector<double> read_numbers(const JsonInput<nlohmann::json>& json) {
  std::vector<double> numbers;
  for (const auto& each : json.items()) numbers.push_back(each.number());
  return numbers;
}

/// Not below 0.
std::vector<double> read_deviations(const JsonInput<nlohmann::json>& json) {
  std::vector<double> deviations;
  for (const auto& each : json.items()) deviations.push_back(each.number(0));
  return deviations;
}

PreprocessedColumn read_column(const JsonInput<nlohmann::json>& json) {
  PreprocessedColumn column;
  column.name = json.at("name").text();
  column.is_category = json.at("kind").text() == "category";
  if (column.is_category) {
    column.categories = read_texts(json.at("categories"));
    if (const auto unseen = json.find("unseen")) column.unseen = read_texts(*unseen);
    column.has_missing_category = json.at("missing_category").boolean();
    if (const auto is_unseen = json.find("missing_unseen")) column.is_missing_unseen = is_unseen->boolean();
    column.num_unknown = json.at("unknown").integer(0, most_samples_told);
  }
  const auto missing = json.find("missing");
  if (!missing) return column;
  column.missing = missing->at("rule").text();
  column.num_missing = missing->at("count").integer(0, most_samples_told);
  const auto fill = missing->find("fill");
  if (fill && column.is_category)
    column.fill_category = fill->text();
  else if (fill)
    column.fill_number = fill->number();
  return column;
}

}  // namespace

Preprocessing read_preprocessing(const JsonInput<nlohmann::json>& json) {
  Preprocessing preprocessing;
  preprocessing.features = read_texts(json.at("features"));
  preprocessing.mean = read_numbers(json.at("mean"));
  preprocessing.std = read_deviations(json.at("std"));
  if (const std::string& target = json.at("target").text(); !target.empty()) preprocessing.targets = {target};
  if (const auto targets = json.find("targets")) preprocessing.targets = read_texts(*targets);
  preprocessing.classes = read_texts(json.at("classes"));
  if (const auto origin = json.find("origin")) {
    preprocessing.origin = read_numbers(*origin);
    preprocessing.offset = read_numbers(json.at("offset"));
  }
  if (const auto mean = json.find("target_mean")) {
    preprocessing.target_mean = read_numbers(*mean);
    preprocessing.target_std = read_deviations(json.at("target_std"));
  }
  const auto columns = json.find("columns");
  if (!columns) return preprocessing;
  for (const auto& column : columns->items()) preprocessing.columns.push_back(read_column(column));
  preprocessing.num_dropped = json.at("dropped").at("training").integer(0, most_samples_told);
  preprocessing.num_validation_dropped = json.at("dropped").at("validation").integer(0, most_samples_told);
  return preprocessing;
}

}  // namespace trainer
