#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "datasets/table/table_reader.h"

namespace trainer {

/// What the cells of one column of a training file are, before it is known what becomes of them.
///
/// Note [Kinds of columns]
/// A column holds numbers where every cell that has a value is one, else categories. But where half of the cells or
/// more are numbers, or are written as people write numbers ("1,234", "12 kg"; number_notation.h), one that is none is
/// a mistake, which is told with its place: a column is not silently taken for categories because of a stray word.
/// data.columns says it otherwise.
class ColumnSurvey {
 public:
  /// Without a kind, it is to be found. `largest` is the largest number that may be in it.
  ColumnSurvey(std::optional<ColumnKind> declared, std::int64_t max_categories, double largest)
      : declared_(declared), max_categories_(static_cast<std::size_t>(max_categories)), largest_(largest) {}

  /// A cell of the record that `reader` is at. Samples that are left out say what kind it is, and have no categories.
  void add(const TableReader& reader, std::size_t column, bool is_kept);
  void add_missing(const TablePlace& place) {
    if (num_missing_++ == 0) first_missing_ = place;
  }

  ColumnKind kind() const;
  std::int64_t num_missing() const { return num_missing_; }
  const TablePlace& first_missing() const { return first_missing_; }

  /// What is wrong with the column if it is of its kind, but for too many categories.
  struct Mistake {
    TablePlace place;
    std::string message;
  };
  std::optional<Mistake> mistake(const TableColumns& columns, std::size_t column) const;

  /// Different texts, in any order; those of numbers only where the column may be one of categories.
  std::vector<std::string> texts() const { return {texts_.begin(), texts_.end()}; }
  bool has_too_many_texts() const { return is_partial_ || texts_.size() > max_categories_; }
  /// "891", "more than 100,000"
  std::string num_texts() const;

 private:
  bool is_odd() const;

  std::optional<ColumnKind> declared_;
  std::size_t max_categories_;
  double largest_;
  std::int64_t num_values_ = 0, num_numbers_ = 0, num_odd_notations_ = 0, num_missing_ = 0;
  TablePlace first_missing_, first_odd_, first_large_;
  std::string odd_text_, odd_hint_, large_text_;
  bool is_partial_ = false;
  std::unordered_set<std::string> texts_;
};

}  // namespace trainer
