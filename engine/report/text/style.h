#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trainer {

/// How text is to look where it is shown; whoever owns the terminal decides.
struct Style {
  bool color = false;
  int width = 100;  ///< columns that a line may take; at least 60 are used
};

enum class Ink : std::uint8_t { bold, dim, red, green, yellow, blue, magenta, cyan };

/// The text in that ink, or as it is where the style has no colour.
std::string paint(const Style& style, Ink ink, std::string_view text);
/// The text as escaped() writes it (engine/config/text/utf8_text.h), but with the sequences that paint() makes.
std::string escaped_but_paint(std::string_view text);
/// A line of its own over what follows, behind an empty one.
std::string heading(const Style& style, std::string_view text);

/// Columns the text takes in a terminal: code points, without colour sequences.
std::size_t display_width(std::string_view text);

/// The text cut to `width` columns, the last of them "…". For text without colour.
std::string cut_to_width(std::string_view text, std::size_t width);

/// The text with spaces after (or before) it up to `width` columns.
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

/// The text broken between words into lines of at most `width` columns; lines after the first start with `indent`.
/// A number and its unit stay together. No newline at the end.
std::string wrap(std::string_view text, std::size_t width, std::string_view indent = "");

/// Each line that is wider than `width` broken so; what goes on starts below the line's last column, which two spaces
/// part from the one before it.
std::string wrap_lines(std::string_view text, std::size_t width);

/// "1,234,567": for counts that people read.
std::string format_count(std::int64_t count);
/// "0.42 s", "1 min 05 s", "2 h 03 min".
std::string format_duration(double seconds);
/// "1 layer", "2 layers".
std::string format_number_of(std::int64_t count, std::string_view noun);

}  // namespace trainer
