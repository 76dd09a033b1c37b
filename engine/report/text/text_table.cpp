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
  constexpr std::size_t narrowest_cut = 8;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));

  const auto allowed = static_cast<std::size_t>(std::max(style.width, 60));
  std::size_t total = static_cast<std::size_t>(indent) + gap * (columns_.size() - 1);
  for (const std::size_t width : widths) total += width;
  std::vector<bool> is_shown(columns_.size(), true);
  std::string left_out;
  for (std::size_t i = columns_.size(); i-- > 0 && total > allowed;) {
    if (columns_[i].narrow != Narrow::is_left_out) continue;
    is_shown[i] = false;
    total -= gap + widths[i];
    left_out = columns_[i].title + (left_out.empty() ? "" : ", ") + left_out;
  }
  const auto cut = std::find_if(columns_.begin(), columns_.end(),
                                [](const Column& column) { return column.narrow == Narrow::gives_way; });
  const auto cut_column = static_cast<std::size_t>(cut == columns_.end() ? 0 : cut - columns_.begin());
  if (total > allowed) {
    std::size_t& width = widths[cut_column];
    const std::size_t excess = total - allowed;
    width = width > excess + narrowest_cut ? width - excess : std::min(width, narrowest_cut);
  }

  const auto line_of = [&](const std::vector<std::string>& cells) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!is_shown[i]) continue;
      if (i > 0) line.append(gap, ' ');
      const std::string cell = i == cut_column ? cut_to_width(cells[i], widths[i]) : cells[i];
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
    std::size_t ruled = 0;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (is_shown[i]) ruled += widths[i] + (i > 0 ? gap : 0);
    std::string rule;
    for (std::size_t i = 0; i < ruled; ++i) rule += "─";
    text += std::string(static_cast<std::size_t>(indent), ' ') + paint(style, Ink::dim, rule) + '\n';
  }
  if (!left_out.empty())
    text += std::string(static_cast<std::size_t>(indent), ' ') + "Left out at this width: " + left_out + ".\n";
  return text;
}

}  // namespace trainer
