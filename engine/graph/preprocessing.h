#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

/// A column of a table that becomes features, in the order of Preprocessing::features.
struct PreprocessedColumn {
  std::string name;
  bool is_category = false;  ///< then a feature for each of the categories, 1 where a sample has it and else 0
  /// In order. What is none of them is 0 in all, as is one that no training sample has.
  std::vector<std::string> categories = {};
  std::vector<std::string> unseen = {};  ///< of them, those that no training sample has
  bool has_missing_category = false;     ///< behind the others, a feature for samples without a value
  bool is_missing_unseen = false;        ///< which no training sample is, so that it is 0 for all

  std::string missing = {};                       ///< the rule for cells without a value; empty: there were none
  std::int64_t num_missing = 0;                   ///< of the training data
  std::optional<double> fill_number = {};         ///< stands for them
  std::optional<std::string> fill_category = {};  ///< likewise
  std::int64_t num_unknown = 0;                   ///< validation samples with a category that no training sample has

  friend bool operator==(const PreprocessedColumn&, const PreprocessedColumn&) = default;
};

/// What becomes of data before a model sees it, and what its outputs stand for: kept with a model, so that it can be
/// used on data that it was not trained on. Texts are UTF-8 without control characters.
struct Preprocessing {
  std::vector<std::string> features;  ///< names of what a table is to the model, in order; empty: it is none
  /// A feature x, or a channel of pixels x from 0 to 1, becomes (x − mean) / std; empty: it stays as it is.
  std::vector<double> mean, std;
  /// Of features of a table, where they are standardised: x − origin − offset is x − mean without the rounding of mean.
  std::vector<double> origin, offset;
  std::vector<PreprocessedColumn> columns;      ///< where features come from; empty in what earlier versions kept
  std::vector<std::string> targets;             ///< the columns of the targets; empty: they have no name
  std::vector<double> target_mean, target_std;  ///< numbers to predict, likewise; empty: they stay as they are
  std::vector<std::string> classes;             ///< names by number; empty: they have none, or there are no classes
  std::int64_t num_dropped = 0, num_validation_dropped = 0;  ///< samples left out since they lack values

  bool is_empty() const {
    return features.empty() && mean.empty() && columns.empty() && targets.empty() && classes.empty();
  }

  friend bool operator==(const Preprocessing&, const Preprocessing&) = default;
};

/// What losses and mean absolute errors are told in where numbers to predict are standardised: "standard deviations of
/// price (9.19)". Empty where they stay as they are.
std::string target_unit(const Preprocessing& preprocessing);

}  // namespace trainer
