#include "datasets/table/category_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/table/cell_text.h"

namespace trainer {

CategoryTable::CategoryTable(const std::vector<std::string>& labels) {
  numeric_ = std::all_of(labels.begin(), labels.end(), [](const auto& label) { return number_in(label).has_value(); });
  if (numeric_) {
    for (const std::string& label : labels) number_of_number_.emplace(*number_in(label), 0);
    for (auto& [number, place] : number_of_number_) {
      place = static_cast<std::int32_t>(names_.size());
      names_.push_back(fmt::format("{}", number));
    }
  } else {
    names_ = labels;
    std::sort(names_.begin(), names_.end());
    for (std::size_t i = 0; i < names_.size(); ++i) number_of_text_[names_[i]] = static_cast<std::int32_t>(i);
  }
}

std::optional<std::int32_t> CategoryTable::find(std::string_view label) const {
  if (numeric_) {
    const auto number = number_in(label);
    const auto found = number ? number_of_number_.find(*number) : number_of_number_.end();
    return found == number_of_number_.end() ? std::nullopt : std::optional(found->second);
  }
  const auto found = number_of_text_.find(label);
  return found == number_of_text_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace trainer
