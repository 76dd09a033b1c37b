#include "datasets/table/column_survey.h"

#include <fmt/format.h>

#include <cmath>

#include "datasets/table/cell_text.h"
#include "datasets/table/number_notation.h"

namespace trainer {
namespace {

/// As many as are counted to say how many too many they are.
constexpr std::size_t most_counted = 100'000;

}  // namespace

void ColumnSurvey::add(const TableReader& reader, std::size_t column, bool is_kept) {
  const std::string_view text = reader.text(column);
  ++num_values_;
  if (const auto number = number_in(text)) {
    ++num_numbers_;
    if (std::abs(*number) > largest_ && first_large_.line == 0) {
      first_large_ = reader.place(column);
      large_text_ = shortened_cell(text);
    }
  } else {
    if (num_numbers_ + 1 == num_values_) {
      first_odd_ = reader.place(column);
      odd_text_ = text.substr(0, 200);
      odd_hint_ = reader.hint_for(text);
    }
    // Only what may be a number in the end needs to be looked at so closely.
    if (!declared_ && !odd_notation(text).empty()) ++num_odd_notations_;
  }
  if (!is_kept || declared_ == ColumnKind::number || is_partial_) return;
  const bool may_be_numbers = !declared_ && num_numbers_ == num_values_;
  if (texts_.size() > (may_be_numbers ? max_categories_ : most_counted)) {
    is_partial_ = true;
    return;
  }
  texts_.emplace(text);
}

bool ColumnSurvey::is_odd() const {
  if (num_numbers_ == num_values_) return false;
  return declared_ ? declared_ == ColumnKind::number : 2 * (num_numbers_ + num_odd_notations_) >= num_values_;
}

ColumnKind ColumnSurvey::kind() const {
  if (declared_) return *declared_;
  return num_numbers_ == num_values_ || is_odd() ? ColumnKind::number : ColumnKind::category;
}

std::optional<ColumnSurvey::Mistake> ColumnSurvey::mistake(const TableColumns& columns, std::size_t column) const {
  if (kind() == ColumnKind::category) return std::nullopt;
  const std::string name = columns.name_of(column), key = columns.key_of(column);
  if (num_numbers_ == num_values_) {
    if (first_large_.line == 0) return std::nullopt;
    return Mistake{first_large_, fmt::format("'{}' in {}, expected a finite number of at most {:g} in size",
                                             large_text_, name, largest_)};
  }
  const std::string said = fmt::format("'{}' in {}, expected a finite number", shortened_cell(odd_text_), name);
  if (!odd_hint_.empty()) return Mistake{first_odd_, said + odd_hint_};
  const std::string_view notation = odd_notation(odd_text_);
  const std::string as_category = fmt::format("data.columns: {{{}: category}}", key);
  if (!notation.empty())
    return Mistake{first_odd_,
                   fmt::format("{}: it {}; write the digits alone with a point before decimals, or {} if it "
                               "is none",
                               said, notation, as_category)};
  // What is not shown whole stands for a missing value in no file.
  const bool is_whole = shortened_cell(odd_text_) == odd_text_;
  const std::string as_missing =
      is_whole ? fmt::format("data.missing_values: [{}] if it stands for none, ", yaml_word(odd_text_)) : "";
  return Mistake{first_odd_, fmt::format("{}, as {} of {} values are; write {}{} if it is a category, or data.exclude: "
                                         "[{}]",
                                         said, num_numbers_, num_values_, as_missing, as_category, key)};
}

std::string ColumnSurvey::num_texts() const {
  return is_partial_ ? fmt::format("more than {}", texts_.size() - 1) : fmt::format("{}", texts_.size());
}

}  // namespace trainer
