#include "datasets/table/table_survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "datasets/dataset_format.h"
#include "datasets/table/cell_text.h"
#include "datasets/table/column_survey.h"
#include "datasets/table/missing_rules.h"
#include "datasets/table/table_reader.h"
#include "datasets/table/table_rows.h"

namespace trainer {
namespace {

using Kinds = std::vector<std::optional<ColumnKind>>;

/// The rule of a column where its kind decides, for either.
struct RuleByKind {
  bool drops_number = false, drops_category = false;

  bool is_open() const { return drops_number != drops_category; }
};

/// One pass over a training file.
class TrainingPass {
 public:
  /// The kinds of the features, where they are known.
  TrainingPass(const DataConfig& config, const std::string& path, const Kinds* kinds)
      : config_(config), reader_(config, path) {
    const TableColumns& columns = reader_.columns();
    for (const std::size_t column : columns.features) {
      const std::optional<ColumnKind> kind = kinds != nullptr ? (*kinds)[surveys_.size()] : declared_kind(column);
      surveys_.emplace_back(kind, config.max_categories, largest_feature(config));
      rules_.push_back(
          {drops(column, kind.value_or(ColumnKind::number)), drops(column, kind.value_or(ColumnKind::category))});
    }
    for (const std::size_t target : columns.targets)
      survey_.target_missing.push_back(target_missing_rule(config, columns, target));
  }

  /// False where samples are left out or not by a kind that is known only now.
  bool read() {
    while (reader_.next()) read_row();
    return !is_open_;
  }

  Kinds kinds() const {
    Kinds kinds;
    for (const ColumnSurvey& each : surveys_) kinds.emplace_back(each.kind());
    return kinds;
  }

  TableSurvey survey() {
    const TableColumns& columns = reader_.columns();
    for (std::size_t i = 0; i < surveys_.size(); ++i) {
      const ColumnSurvey& found = surveys_[i];
      FeatureColumn& feature = survey_.features.emplace_back();
      feature.column = columns.features[i];
      if (auto mistake = found.mistake(columns, feature.column)) {
        mistakes_.push_back(std::move(*mistake));
        continue;
      }
      feature.kind = found.kind();
      feature.missing = missing_rule(config_, columns, feature.column, feature.kind);
      feature.num_missing = found.num_missing();
      const bool is_number = feature.kind == ColumnKind::number;
      if (!is_number && found.has_too_many_texts()) {
        has_too_many_.push_back(i);
        continue;
      }
      if (!check_missing(feature, found) || is_number) continue;
      feature.categories = CategoryTable(found.texts());
      feature.has_missing_category = feature.missing == MissingRule::category && feature.num_missing > 0;
    }
    check_categories();
    throw_mistakes();
    for (const FeatureColumn& feature : survey_.features) survey_.is_filled.push_back(feature.num_missing > 0);
    survey_.classes = CategoryTable({labels_.begin(), labels_.end()});
    survey_.columns = columns;
    return std::move(survey_);
  }

 private:
  std::optional<ColumnKind> declared_kind(std::size_t column) const {
    const ColumnConfig* const entry = reader_.columns().entry_of(config_, column);
    return entry == nullptr ? std::nullopt : entry->kind;
  }

  /// Whether a sample without a value in a column of that kind is left out.
  bool drops(std::size_t column, ColumnKind kind) const {
    const ColumnConfig* const entry = reader_.columns().entry_of(config_, column);
    if (entry != nullptr && entry->missing) return *entry->missing == MissingRule::drop;
    return missing_rule(config_, reader_.columns(), column, kind) == MissingRule::drop;
  }

  void read_row() {
    const TableColumns& columns = reader_.columns();
    bool is_kept = true;
    is_missing_.assign(surveys_.size(), false);
    for (std::size_t i = 0; i < surveys_.size(); ++i) {
      if (!reader_.is_missing(columns.features[i])) continue;
      is_missing_[i] = true;
      if (rules_[i].is_open())
        is_open_ = true;
      else if (rules_[i].drops_number)
        is_kept = false;
    }
    for (std::size_t i = 0; i < columns.targets.size(); ++i)
      if (survey_.target_missing[i] == MissingRule::drop && reader_.is_missing(columns.targets[i])) is_kept = false;
    for (std::size_t i = 0; i < surveys_.size(); ++i) {
      if (!is_missing_[i]) {
        surveys_[i].add(reader_, columns.features[i], is_kept);
      } else if (is_kept) {
        surveys_[i].add_missing(reader_.place(columns.features[i]));
      }
    }
    ++(is_kept ? survey_.num_train : survey_.num_train_dropped);
    if (is_kept) read_targets();
  }

  void read_targets() {
    const TableColumns& columns = reader_.columns();
    for (std::size_t i = 0; i < columns.targets.size(); ++i) {
      const std::size_t target = columns.targets[i];
      if (reader_.is_missing(target)) {
        if (survey_.target_missing[i] == MissingRule::category)
          survey_.has_missing_class = true;
        else if (first_without_target_.line == 0)
          mistakes_.push_back({first_without_target_ = reader_.place(target),
                               fmt::format("no value in {}; {}", columns.name_of(target),
                                           missing_hint(columns, target, std::nullopt))});
      } else if (is_categorical(config_)) {
        const std::string_view label = reader_.text(target);
        label_.assign(label);
        labels_.insert(label_);
      }
    }
  }

  /// Whether the column's cells without a value leave others, and a rule is for them.
  bool check_missing(const FeatureColumn& feature, const ColumnSurvey& found) {
    const TableColumns& columns = reader_.columns();
    if (found.num_missing() == 0) return true;
    const std::string name = columns.name_of(feature.column);
    if (found.num_missing() == survey_.num_train) {
      mistakes_.push_back({found.first_missing(), fmt::format("no value in {}, here or in any other row; write "
                                                              "data.exclude: [{}]",
                                                              name, columns.key_of(feature.column))});
      return false;
    }
    if (feature.missing != MissingRule::error) return true;
    mistakes_.push_back(
        {found.first_missing(), fmt::format("no value in {}, as in {} of {} rows; {}", name, found.num_missing(),
                                            reader_.num_rows(), missing_hint(columns, feature.column, feature.kind))});
    return false;
  }

  /// All columns of too many categories in one message, which says what leaves them all out.
  void check_categories() {
    if (has_too_many_.empty()) return;
    const TableColumns& columns = reader_.columns();
    std::string names, keys;
    for (const std::size_t i : has_too_many_) {
      const std::size_t column = columns.features[i];
      names += fmt::format("{}{} has {} different texts", names.empty() ? "" : ", ", columns.name_of(column),
                           surveys_[i].num_texts());
      keys += (keys.empty() ? "" : ", ") + columns.key_of(column);
    }
    mistakes_.push_back(
        {reader_.head(columns.features[has_too_many_.front()]),
         fmt::format("{}, more than the {} categories of data.max_categories; write data.exclude: [{}], or a larger "
                     "data.max_categories",
                     names, config_.max_categories, keys)});
  }

  void throw_mistakes() {
    constexpr std::size_t most_shown = 10;
    if (mistakes_.empty()) return;
    std::stable_sort(mistakes_.begin(), mistakes_.end(),
                     [](const auto& a, const auto& b) { return a.place < b.place; });
    std::string text;
    for (std::size_t i = 0; i < std::min(mistakes_.size(), most_shown); ++i)
      text += (i == 0 ? "" : "\n") + reader_.located(mistakes_[i].place, mistakes_[i].message);
    if (mistakes_.size() > most_shown) text += fmt::format("\n{} more columns", mistakes_.size() - most_shown);
    throw DataError(text);
  }

  const DataConfig& config_;
  TableReader reader_;
  std::vector<ColumnSurvey> surveys_;  ///< by feature
  std::vector<RuleByKind> rules_;      ///< likewise
  std::vector<bool> is_missing_;       ///< likewise, of the row that is read
  TableSurvey survey_;
  std::vector<ColumnSurvey::Mistake> mistakes_;
  std::vector<std::size_t> has_too_many_;
  TablePlace first_without_target_;
  std::string label_;
  std::unordered_set<std::string> labels_;
  bool is_open_ = false;
};

}  // namespace

std::int64_t TableSurvey::num_features() const {
  std::int64_t count = 0;
  for (const FeatureColumn& feature : features) count += feature.width();
  return count;
}

double largest_feature(const DataConfig& config) {
  return config.standardize ? 1e150 : static_cast<double>(std::numeric_limits<float>::max());
}

double largest_target(const DataConfig& config) {
  return config.standardize_target ? 1e150 : static_cast<double>(std::numeric_limits<float>::max());
}

TableSurvey survey_training_table(const DataConfig& config, const std::string& path) {
  TrainingPass first(config, path, nullptr);
  if (first.read()) return first.survey();
  const Kinds kinds = first.kinds();
  TrainingPass second(config, path, &kinds);
  second.read();
  return second.survey();
}

void survey_validation_table(const DataConfig& config, const std::string& path, const std::string& train_path,
                             TableSurvey& survey) {
  TableRows rows(config, path, train_path, survey);
  std::vector<bool> has_missing(survey.features.size());
  while (rows.next()) {
    ++survey.num_validation;
    for (std::size_t i = 0; i < survey.features.size(); ++i) {
      if (!rows.is_missing(survey.features[i].column)) continue;
      rows.feature(i);  // refuses it where no rule is for it
      has_missing[i] = true;
    }
  }
  survey.num_validation_dropped = rows.num_dropped();
  for (std::size_t i = 0; i < has_missing.size(); ++i)
    if (has_missing[i]) survey.is_filled[i] = true;
  if (survey.num_validation == 0) throw DataError(fmt::format("{}: no samples", path));
}

}  // namespace trainer
