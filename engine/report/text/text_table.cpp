#include "engine/report/text/text_table.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"

namespace trainer {

void TextTable::add_row(std::vector<std::string> cells) {
  require_internal(cells.size() == columns_.size(), "a table's rows have a cell for each column");
  rows_.push_back(std::move(cells));
}

void TextTable::add_rule() { rows_.emplace_back(); }

std::string TextTable::render(const Style& style, int indent) const {
  constexpr std::size_t gap = 2;
  constexpr std::size_t narrowest_first_column = 8;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));

  std::size_t total = static_cast<std::size_t>(indent) + gap * (columns_.size() - 1);
  for (const std::size_t width : widths) total += width;
  const auto allowed = static_cast<std::size_t>(std::max(style.width, 60));
  if (total > allowed) {
    const std::size_t excess = total - allowed;
    widths[0] =
        widths[0] > excess + narrowest_first_column ? widths[0] - excess : std::min(widths[0], narrowest_first_column);
  }

  const auto line_of = [&](const std::vector<std::string>& cells) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line.append(gap, ' ');
      const std::string cell = i == 0 ? cut_to_width(cells[i], widths[i]) : cells[i];
      line += columns_[i].align == Align::left ? pad_right(cell, widths[i]) : pad_left(cell, widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };

  std::string text;
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  if (std::any_of(titles.begin(), titles.end(), [](const std::string& title) { return !title.empty(); }))
    text += paint(style, Ink::bold, line_of(titles)) + '\n';
  for (const auto& row : rows_) {
    if (!row.empty()) {
      text += line_of(row) + '\n';
      continue;
    }
    std::size_t ruled = gap * (columns_.size() - 1);
    for (const std::size_t width : widths) ruled += width;
    std::string rule;
    for (std::size_t i = 0; i < ruled; ++i) rule += "─";
    text += std::string(static_cast<std::size_t>(indent), ' ') + paint(style, Ink::dim, rule) + '\n';
  }
  return text;
}

}  // namespace trainer
