#include "engine/report/run/preprocessing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/config/text/utf8_text.h"
#include "engine/report/text/numbers_text.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

constexpr std::size_t most_named = 10;

/// "a, b, c and 7 more"
std::string some_of(const std::vector<std::string>& names, std::size_t longest = 24) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i)
    text += (i == 0 ? "" : ", ") + shortened(names[i], longest);
  if (names.size() > most_named)
    text += fmt::format(" and {} more", format_count(static_cast<std::int64_t>(names.size() - most_named)));
  return text;
}

std::string missing_text(const PreprocessedColumn& column) {
  std::string text = fmt::format("{} in {} by ", format_count(column.num_missing), shortened(column.name, 24));
  if (column.fill_number) return text + fmt::format("the {} {:.6g}", column.missing, *column.fill_number);
  if (column.fill_category)
    return text + fmt::format("the {} {}", column.missing, shortened(*column.fill_category, 24));
  return text + (column.has_missing_category ? "a category" : "no category");
}

void add_line(std::string& text, const std::string& line) { text += (text.empty() ? "" : "\n") + line; }

}  // namespace

std::string preprocessing_text(const Preprocessing& preprocessing) {
  std::vector<std::string> numbers, categories, filled, unknown;
  for (const PreprocessedColumn& column : preprocessing.columns) {
    if (column.is_category)
      categories.push_back(fmt::format("{} ({})", shortened(column.name, 24), some_of(column.categories)));
    else
      numbers.push_back(column.name);
    if (!column.missing.empty()) filled.push_back(missing_text(column));
    if (column.num_unknown > 0)
      unknown.push_back(fmt::format("{} of {}", format_count(column.num_unknown), shortened(column.name, 24)));
  }
  // What a column without a record of its own was kept with.
  if (preprocessing.columns.empty() && preprocessing.mean.size() == preprocessing.features.size())
    numbers = preprocessing.features;
  std::string parts;
  if (!numbers.empty())
    parts +=
        fmt::format("features {}: {}", preprocessing.mean.empty() ? "as they are" : "standardised", some_of(numbers));
  if (!categories.empty())
    parts += fmt::format("{}categories: {}", parts.empty() ? "" : "; ", some_of(categories, 200));
  if (!preprocessing.target_std.empty())
    parts += fmt::format("{}target standardised: {}", parts.empty() ? "" : "; ", some_of(preprocessing.targets));
  if (!preprocessing.classes.empty())
    parts += fmt::format("{}classes: {}", parts.empty() ? "" : "; ", some_of(preprocessing.classes));
  std::string text = parts.empty() ? "" : parts + " (with every checkpoint)";
  if (!filled.empty()) add_line(text, "missing values filled: " + some_of(filled, 200));
  if (preprocessing.num_dropped + preprocessing.num_validation_dropped > 0)
    add_line(text, fmt::format("left out, since they lack values: {} and {} for validation",
                               format_number_of(preprocessing.num_dropped, "sample"),
                               format_count(preprocessing.num_validation_dropped)));
  if (!unknown.empty())
    add_line(text, fmt::format("categories of validation that no training sample has, 0 in all features: {}",
                               some_of(unknown, 200)));
  return text;
}

}  // namespace trainer
