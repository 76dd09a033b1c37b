#include "datasets/prediction/table_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "datasets/table/cell_text.h"
#include "datasets/table/csv_records.h"
#include "datasets/table/delimiter.h"
#include "datasets/table/missing_values.h"
#include "datasets/table/table_survey.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

/// Numbers of categories as they were kept: in an order of their own, as text without control characters.
class KeptCategories {
 public:
  KeptCategories() = default;
  /// DataError where two are one.
  explicit KeptCategories(const PreprocessedColumn& column) {
    const std::vector<std::string>& names = column.categories;
    is_numeric_ = std::all_of(names.begin(), names.end(), [](const auto& name) { return number_in(name).has_value(); });
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool is_new =
          is_numeric_ ? by_number_.emplace(*number_in(names[i]), i).second : by_text_.emplace(names[i], i).second;
      if (!is_new)
        throw DataError(
            fmt::format("column '{}' was kept with category '{}' twice, so which feature is whose is not known",
                        column.name, names[i]));
    }
  }

  std::optional<std::size_t> find(std::string_view text) const {
    if (is_numeric_) {
      const std::optional<double> number = number_in(text);
      const auto found = number ? by_number_.find(*number) : by_number_.end();
      return found == by_number_.end() ? std::nullopt : std::optional(found->second);
    }
    const auto found = by_text_.find(escaped(text));
    return found == by_text_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  bool is_numeric_ = false;
  std::map<double, std::size_t> by_number_;
  std::unordered_map<std::string, std::size_t> by_text_;
};

/// A column of the training table, and what becomes of its cells.
struct FeatureRule {
  PreprocessedColumn column;
  KeptCategories categories;
  std::size_t first = 0;  ///< of its features

  std::size_t width() const {
    return column.is_category ? column.categories.size() + (column.has_missing_category ? 1 : 0) : 1;
  }
};

/// What earlier versions kept: numbers alone.
std::vector<PreprocessedColumn> columns_of(const Preprocessing& preprocessing) {
  if (!preprocessing.columns.empty()) return preprocessing.columns;
  std::vector<PreprocessedColumn> columns;
  for (const std::string& name : preprocessing.features) columns.push_back({.name = name});
  return columns;
}

/// Features of rows, f32.
class RowFeatures {
 public:
  RowFeatures(const DataConfig& config, const Preprocessing& preprocessing, std::int64_t num_features)
      : origin_(preprocessing.origin.empty() ? preprocessing.mean : preprocessing.origin),
        offset_(preprocessing.offset.empty() ? std::vector<double>(preprocessing.mean.size()) : preprocessing.offset),
        std_(preprocessing.std),
        largest_(largest_feature(config)),
        missing_(config.missing_values) {
    std::size_t count = 0;
    for (PreprocessedColumn& column : columns_of(preprocessing)) {
      FeatureRule& rule = rules_.emplace_back();
      rule.column = std::move(column);
      rule.first = count;
      count += rule.width();
      if (rule.column.is_category) rule.categories = KeptCategories(rule.column);
    }
    const bool are_all = std_.empty() || std_.size() == count;
    if (count != static_cast<std::size_t>(num_features) || !are_all || origin_.size() != std_.size() ||
        offset_.size() != std_.size())
      throw DataError(
          fmt::format("what was kept with the model makes {} features of a table's columns, and the model takes {}",
                      count, num_features));
  }

  const std::vector<FeatureRule>& rules() const { return rules_; }

  /// Writes the features of a row, whose cell of each column `cell` gives. DataError.
  template <typename Cell>
  void write(const Cell& cell, float* features) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      const FeatureRule& rule = rules_[i];
      if (rule.column.is_category)
        write_category(rule, cell(i), features + rule.first);
      else
        features[rule.first] = number(rule, cell(i));
    }
  }

 private:
  [[noreturn]] static void refuse_missing(const PreprocessedColumn& column) {
    throw DataError(fmt::format("no value in column '{}'; {}", column.name,
                                column.missing.empty() ? "the training data lacked none there, so nothing stands for it"
                                : column.missing == "drop" ? "training left such samples out"
                                                           : "nothing stands for it"));
  }

  void write_category(const FeatureRule& rule, std::string_view text, float* features) const {
    const PreprocessedColumn& column = rule.column;
    std::fill_n(features, rule.width(), 0.0F);
    if (!missing_.contains(text)) {
      const std::optional<std::size_t> found = rule.categories.find(text);
      const auto is_unseen = [&](std::size_t category) {
        const std::string& name = column.categories[category];
        return std::find(column.unseen.begin(), column.unseen.end(), name) != column.unseen.end();
      };
      if (found && !is_unseen(*found)) features[*found] = 1.0F;
      return;
    }
    if (column.has_missing_category) {
      features[rule.width() - 1] = column.is_missing_unseen ? 0.0F : 1.0F;
      return;
    }
    // A category of their own that no training sample had is 0 in all features, too.
    if (column.missing == "category") return;
    if (!column.fill_category) refuse_missing(column);
    if (const auto found = rule.categories.find(*column.fill_category)) features[*found] = 1.0F;
  }

  float number(const FeatureRule& rule, std::string_view text) const {
    double value = 0;
    if (missing_.contains(text)) {
      if (!rule.column.fill_number) refuse_missing(rule.column);
      value = *rule.column.fill_number;
    } else {
      const std::optional<double> found = number_in(text);
      if (!found || std::abs(*found) > largest_)
        throw DataError(fmt::format("'{}' in column '{}', expected a finite number of at most {:g} in size",
                                    shortened_cell(text), rule.column.name, largest_));
      value = *found;
    }
    const std::size_t i = rule.first;
    if (!std_.empty()) value = (value - origin_[i] - offset_[i]) / std_[i];
    if (std::abs(value) > std::numeric_limits<float>::max())
      throw DataError(fmt::format("'{}' in column '{}' is farther from the training samples than f32 holds",
                                  shortened_cell(text), rule.column.name));
    return static_cast<float>(value);
  }

  std::vector<FeatureRule> rules_;
  std::vector<double> origin_, offset_, std_;  ///< by feature; empty: nothing is standardised
  double largest_;
  MissingValues missing_;
};

/// A table that is read row by row.
class OpenTable {
 public:
  /// Throws DataError for what is no table, or lacks a column.
  OpenTable(const std::string& path, const DataConfig& config, const RowFeatures& features)
      : file_(path), records_(file_, delimiter_of(config)), features_(features) {
    if (!records_.next()) throw DataError(fmt::format("{}: is empty, expected a table", path));
    num_columns_ = records_.fields().size();
    std::vector<std::string> names;
    if (config.header)
      for (const CsvField& field : records_.fields()) names.push_back(escaped(trimmed(field)));
    for (const FeatureRule& rule : features.rules()) places_.push_back(place_of(rule.column.name, names, path));
    is_pending_ = !config.header;
  }

  /// Line of the next row; 0 where there is none. DataError where the file cannot be read on.
  std::int64_t next() {
    if (!std::exchange(is_pending_, false) && !records_.next()) return 0;
    return records_.line();
  }

  /// Of the row that next() came to. DataError without its place.
  void write(float* features) const {
    const std::span<const CsvField> fields = records_.fields();
    if (fields.size() != num_columns_)
      throw DataError(fmt::format("{} fields, expected {}", fields.size(), num_columns_));
    features_.write([&](std::size_t i) { return trimmed(fields[places_[i]]); }, features);
  }

 private:
  std::size_t place_of(const std::string& name, const std::vector<std::string>& names, const std::string& path) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) {
      if (std::find(found + 1, names.end(), name) != names.end())
        throw DataError(fmt::format("{}: two columns '{}', and which one the model reads is not known", path, name));
      return static_cast<std::size_t>(found - names.begin());
    }
    if (names.empty()) {  // as table_preprocessing() names columns that have no names
      constexpr std::string_view word = "column ";
      std::size_t column = 0;
      const char* const end = name.data() + name.size();
      const bool is_number =
          name.starts_with(word) && std::from_chars(name.data() + word.size(), end, column).ec == std::errc();
      if (is_number && column < num_columns_) return column;
      throw DataError(fmt::format("{}: {} columns, and the model reads {}", path, num_columns_, name));
    }
    throw DataError(fmt::format("{}: no column '{}', which the model reads", path, name));
  }

  InputFile file_;
  CsvRecords records_;
  const RowFeatures& features_;
  std::size_t num_columns_ = 0;
  std::vector<std::size_t> places_;  ///< in a row, by column of the training table
  bool is_pending_ = false;          ///< the record read last is a row and not yet handed out
};

class TableInputs final : public InputStream {
 public:
  TableInputs(InputPaths paths, const DataConfig& config, const Preprocessing& preprocessing, std::int64_t num_features)
      : paths_(std::move(paths)),
        config_(config),
        features_(config, preprocessing, num_features),
        num_features_(static_cast<std::size_t>(num_features)) {}

  bool next(PredictionInput& input) override {
    while (true) {
      if (!table_) {
        if (!paths_.next(path_, below_)) return false;
        input.name = path_;
        input.below = below_;
        try {
          table_ = std::make_unique<OpenTable>(path_, config_, features_);
        } catch (const DataError& error) {
          input.error = error.what();
          return true;
        }
      }
      std::int64_t line = 0;
      try {
        line = table_->next();
      } catch (const DataError& error) {
        table_.reset();
        input.name = path_;
        input.below = below_;
        input.error = error.what();
        return true;
      }
      if (line == 0) {
        table_.reset();
        continue;
      }
      read_row(input, line);
      return true;
    }
  }
  std::vector<std::string> remarks() const override { return paths_.remarks(); }

 private:
  void read_row(PredictionInput& input, std::int64_t line) const {
    input.name = fmt::format("{}:{}", path_, line);
    input.below = below_;
    input.bytes.resize(num_features_ * sizeof(float));
    try {
      table_->write(reinterpret_cast<float*>(input.bytes.data()));
    } catch (const DataError& error) {
      input.error = fmt::format("{}: {}", input.name, error.what());
    }
  }

  InputPaths paths_;
  const DataConfig config_;
  const RowFeatures features_;
  const std::size_t num_features_;
  std::string path_, below_;
  std::unique_ptr<OpenTable> table_;
};

}  // namespace

std::unique_ptr<InputStream> table_inputs(InputPaths paths, const DataConfig& config,
                                          const Preprocessing& preprocessing, std::int64_t num_features) {
  return std::make_unique<TableInputs>(std::move(paths), config, preprocessing, num_features);
}

}  // namespace trainer
