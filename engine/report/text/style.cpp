#include "engine/report/text/style.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::string_view code_of(Ink ink) {
  switch (ink) {
    case Ink::bold:
      return "1";
    case Ink::dim:
      return "2";
    case Ink::red:
      return "31";
    case Ink::green:
      return "32";
    case Ink::yellow:
      return "33";
    case Ink::blue:
      return "34";
    case Ink::magenta:
      return "35";
    case Ink::cyan:
      return "36";
  }
  return "0";
}

std::string begin_of(Ink ink) { return fmt::format("\x1b[{}m", code_of(ink)); }

/// Length of the sequence of paint() at the start of the text; 0 where there is none.
std::size_t paint_length(std::string_view text) {
  constexpr std::string_view reset = "\x1b[0m";
  if (text.starts_with(reset)) return reset.size();
  for (const Ink ink : {Ink::bold, Ink::dim, Ink::red, Ink::green, Ink::yellow, Ink::blue, Ink::magenta, Ink::cyan})
    if (const std::string begin = begin_of(ink); text.starts_with(begin)) return begin.size();
  return 0;
}

/// Whether the text begins with the unit of the number before it, which stays on that number's line.
bool begins_with_unit(std::string_view text) {
  for (const std::string_view unit : {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "%", "s", "min", "h"}) {
    if (!text.starts_with(unit)) continue;
    if (text.size() == unit.size() || std::isalnum(static_cast<unsigned char>(text[unit.size()])) == 0) return true;
  }
  return false;
}

/// End of the word at `begin`: a number and its unit are one word.
std::size_t end_of_word(std::string_view text, std::size_t begin) {
  std::size_t end = text.find(' ', begin);
  while (end != std::string_view::npos && end > begin && std::isdigit(static_cast<unsigned char>(text[end - 1])) != 0 &&
         begins_with_unit(text.substr(end + 1)))
    end = text.find(' ', end + 1);
  return end == std::string_view::npos ? text.size() : end;
}

/// Where the line's last column begins, if not behind `most`; else where its text does.
std::size_t last_column_of(std::string_view line, std::size_t most) {
  std::size_t column = std::min(line.find_first_not_of(' '), line.size());
  for (std::size_t gap = line.find("  ", column); gap < most; gap = line.find("  ", gap)) {
    gap = std::min(line.find_first_not_of(' ', gap), line.size());
    if (gap <= most) column = gap;
  }
  return column;
}

}  // namespace

std::string paint(const Style& style, Ink ink, std::string_view text) {
  if (!style.color || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", begin_of(ink), text);
}

std::string escaped_but_paint(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t painted = paint_length(text);
    const std::size_t end = painted > 0 ? painted : text.find('\x1b', 1);
    const std::string_view piece = text.substr(0, end);
    result += painted > 0 ? std::string(piece) : escaped(piece);
    text.remove_prefix(piece.size());
  }
  return result;
}

std::string heading(const Style& style, std::string_view text) { return '\n' + paint(style, Ink::bold, text) + '\n'; }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      const std::size_t end = text.find('m', i);
      if (end == std::string_view::npos) break;
      i = end;
      continue;
    }
    width += starts_code_point(text[i]) ? 1 : 0;
  }
  return width;
}

std::string cut_to_width(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::size_t end = 0;
  for (std::size_t columns = 0; end < text.size(); ++end) {
    if (starts_code_point(text[end]) && columns++ == width - 1) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t columns = display_width(text);
  return std::string(text) + std::string(columns < width ? width - columns : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t columns = display_width(text);
  return std::string(columns < width ? width - columns : 0, ' ') + std::string(text);
}

std::string wrap(std::string_view text, std::size_t width, std::string_view indent) {
  std::string result;
  std::size_t column = 0;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = end_of_word(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const std::size_t columns = display_width(word);
    if (result.empty()) {
      column = 0;
    } else if (column + 1 + columns <= width) {
      result += ' ';
      ++column;
    } else {
      result += '\n';
      result += indent;
      column = display_width(indent);
    }
    result += word;
    column += columns;
  }
  return result;
}

std::string wrap_lines(std::string_view text, std::size_t width) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const bool has_end = end < text.size();
    text.remove_prefix(end + (has_end ? 1 : 0));
    if (display_width(line) <= width) {
      result += line;
    } else {
      const std::size_t column = last_column_of(line, width / 2);
      result += line.substr(0, column);
      for (const char c : wrap(line.substr(column), width - column))
        result += c == '\n' ? '\n' + std::string(column, ' ') : std::string(1, c);
    }
    if (has_end) result += '\n';
  }
  return result;
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t end = digits.size(); end > first + 3;) {
    end -= 3;
    digits.insert(end, ",");
  }
  return digits;
}

std::string format_duration(double seconds) {
  constexpr double day = 86400, most_days = 99999;
  if (!(seconds >= 0 && seconds < most_days * day)) return "?";
  if (seconds < 59.995) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string format_number_of(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

}  // namespace trainer
