#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer {

// Note [Cells of a terminal]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// A screen that is drawn line by line must know how many columns each text takes, whoever named it. Unicode's tables
// say so (utf8proc): most letters take one, those of East Asia and pictures two, marks stand on the letter in front of
// them. What has no width of its own, or turns the order of others, is written as '?', and so is what is no UTF-8;
// more than two marks on a letter are left out, since terminals draw a tower of them over other lines.

/// The text on one line, as a terminal is sure to show it: Note [Cells of a terminal]. Tabs and line ends become
/// spaces. `ascii`: for a terminal of another encoding, everything else than ASCII is '?'.
std::string cell_text(std::string_view text, bool ascii = false);

/// Columns that a text of cell_text() takes.
std::size_t cell_width(std::string_view text);

/// A text of cell_text() cut to `width` columns, the last of them `ending`, which takes one.
std::string cut_to_cells(std::string_view text, std::size_t width, std::string_view ending = "…");

/// With spaces behind (or before) it up to `width` columns.
std::string pad_cells_right(std::string_view text, std::size_t width);
std::string pad_cells_left(std::string_view text, std::size_t width);

}  // namespace trainer
