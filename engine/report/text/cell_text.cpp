#include "engine/report/text/cell_text.h"

#include <utf8proc.h>

namespace trainer {
namespace {

constexpr int most_marks = 2;  ///< on a letter

struct Letter {
  utf8proc_int32_t code = -1;  ///< below 0: no UTF-8
  std::size_t length = 1;
};

Letter letter_at(std::string_view text, std::size_t offset) {
  Letter letter;
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + offset);
  const utf8proc_ssize_t length =
      utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - offset), &letter.code);
  letter.length = length > 0 ? static_cast<std::size_t>(length) : 1;
  return letter;
}

bool is_mark(utf8proc_int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME;
}

/// 0 for what is a mark or may not be shown.
std::size_t width_of(utf8proc_int32_t code) {
  if (code < 0) return 0;
  if (code >= 0x20 && code < 0x7F) return 1;
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
      return 0;
    default:
      return static_cast<std::size_t>(utf8proc_charwidth(code));
  }
}

}  // namespace

std::string cell_text(std::string_view text, bool ascii) {
  std::string result;
  result.reserve(text.size());
  int num_marks = most_marks;  // none stands in front of the first letter
  for (std::size_t offset = 0; offset < text.size();) {
    const Letter letter = letter_at(text, offset);
    const std::string_view bytes = text.substr(offset, letter.length);
    offset += letter.length;
    if (letter.code >= 0 && is_mark(letter.code)) {
      if (!ascii && num_marks++ < most_marks) result += bytes;
    } else if (letter.code == '\t' || letter.code == '\n' || letter.code == '\r') {
      result += ' ';
      num_marks = most_marks;
    } else if (width_of(letter.code) == 0 || (ascii && letter.code >= 0x7F)) {
      result += '?';
      num_marks = most_marks;
    } else {
      result += bytes;
      num_marks = 0;
    }
  }
  return result;
}

std::size_t cell_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const Letter letter = letter_at(text, offset);
    offset += letter.length;
    width += width_of(letter.code);
  }
  return width;
}

std::string cut_to_cells(std::string_view text, std::size_t width, std::string_view ending) {
  std::size_t end = 0;  // of what fits in front of the ending
  std::size_t total = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const Letter letter = letter_at(text, offset);
    offset += letter.length;
    total += width_of(letter.code);
    if (total > width) return width == 0 ? "" : std::string(text.substr(0, end)) + std::string(ending);
    if (total + 1 <= width) end = offset;
  }
  return std::string(text);
}

std::string pad_cells_right(std::string_view text, std::size_t width) {
  const std::size_t columns = cell_width(text);
  return std::string(text) + std::string(columns < width ? width - columns : 0, ' ');
}

std::string pad_cells_left(std::string_view text, std::size_t width) {
  const std::size_t columns = cell_width(text);
  return std::string(columns < width ? width - columns : 0, ' ') + std::string(text);
}

}  // namespace trainer
