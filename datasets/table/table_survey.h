#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/table/category_table.h"
#include "datasets/table/table_columns.h"
#include "engine/config/experiment.h"

namespace trainer {

/// A column that is read as one or more features.
struct FeatureColumn {
  std::size_t column = 0;  ///< of the file
  ColumnKind kind = ColumnKind::number;
  MissingRule missing = MissingRule::error;
  CategoryTable categories;
  bool has_missing_category =
      false;                     ///< behind the others: missing is `category`, and the training file has such cells
  std::int64_t num_missing = 0;  ///< cells without a value in the training file

  /// How many features it becomes.
  std::int64_t width() const {
    return kind == ColumnKind::number ? 1 : categories.size() + (has_missing_category ? 1 : 0);
  }
};

/// What is known of a table once it has been looked through, whatever the seed and the split: categories are those of
/// the whole training file, so that a sample has the same features whichever samples are set aside.
struct TableSurvey {
  TableColumns columns;
  std::vector<FeatureColumn> features;      ///< in the file's order
  std::vector<MissingRule> target_missing;  ///< by target
  CategoryTable classes;
  bool has_missing_class = false;  ///< behind the others
  std::int64_t num_train = 0, num_validation = 0;
  std::int64_t num_train_dropped = 0, num_validation_dropped = 0;  ///< samples that a rule `drop` leaves out
  std::vector<bool> is_filled;  ///< by feature: whether the training or the validation file has cells without a value

  std::int64_t num_features() const;
  std::int64_t num_classes() const { return classes.size() + (has_missing_class ? 1 : 0); }
};

/// The largest in size that a feature may be: the squares of differences are summed in f64, and what is not
/// standardised stays as it is, in f32.
double largest_feature(const DataConfig& config);
/// Likewise of a target.
double largest_target(const DataConfig& config);

/// Looks through a training file once, and twice where which samples are left out depends on what kind a column is.
/// DataError names each column that cannot be read as it is, by the place where that shows, and what to write.
TableSurvey survey_training_table(const DataConfig& config, const std::string& path);

/// Counts the samples of a validation file. DataError for a cell without a value that no rule is for.
void survey_validation_table(const DataConfig& config, const std::string& path, const std::string& train_path,
                             TableSurvey& survey);

}  // namespace trainer
