#include "datasets/table/number_notation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace trainer {
namespace {

constexpr std::array<std::string_view, 8> currencies = {"$", "€", "£", "¥", "₹", "USD", "EUR", "GBP"};
constexpr std::array<std::string_view, 4> ordinals = {"st", "nd", "rd", "th"};
/// Blanks that stand between groups of digits, the last two of one width with digits.
constexpr std::array<std::string_view, 3> blanks = {" ", "\u00A0", "\u202F"};
constexpr std::size_t longest_unit = 12;

bool is_digit(char character) { return character >= '0' && character <= '9'; }

/// Takes what `text` begins with, if it is one of the words.
template <std::size_t size>
bool take(std::string_view& text, const std::array<std::string_view, size>& words) {
  for (const std::string_view word : words) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    return true;
  }
  return false;
}

void take_blanks(std::string_view& text) {
  while (take(text, blanks)) continue;
}

std::size_t take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto count = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(count);
  return count;
}

/// Digits in parts. False where there are none, and for parts that no number has: versions ("1.2.3"), dates ("1.2.24").
bool take_digit_groups(std::string_view& text, bool& is_divided, bool& has_comma) {
  constexpr std::array<std::string_view, 8> dividers = {",", "'", "_", ";", "|", " ", "\u00A0", "\u202F"};
  std::size_t digit_count = take_digits(text), num_points = 0;
  bool is_thousands = true;
  for (;;) {
    std::string_view rest = text;
    const bool is_comma = rest.starts_with(','), is_point = rest.starts_with('.');
    if (is_point) {
      rest.remove_prefix(1);
      ++num_points;
    } else {
      if (!take(rest, dividers)) break;
      const auto more = static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_digit) - rest.begin());
      const bool takes_any = is_comma || text.front() == ';' || text.front() == '|';
      if (more == 0 || (more != 3 && !takes_any)) break;  // a blank before a unit
      is_divided = true;
      has_comma = has_comma || is_comma;
    }
    const std::size_t part = take_digits(rest);
    is_thousands = is_thousands && (!is_point || part == 3);
    digit_count += part;
    text = rest;
  }
  return digit_count > 0 && (num_points < 2 || is_thousands);
}

bool is_unit(std::string_view text) {
  if (text.size() > longest_unit || std::find(ordinals.begin(), ordinals.end(), text) != ordinals.end()) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c >= 0x80 || std::isalpha(c) != 0 || c == '%' || c == '/' || c == '$' || c == '^' || c == '.';
  });
}

bool is_hexadecimal(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (!text.starts_with("0x") && !text.starts_with("0X")) return false;
  text.remove_prefix(2);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool is_infinity(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const auto is_word = [text](std::string_view word) {
    return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  };
  return is_word("inf") || is_word("infinity");
}

/// "e400" of "1e400", which no number of the machine holds.
void take_exponent(std::string_view& text) {
  std::string_view rest = text;
  if (!rest.starts_with('e') && !rest.starts_with('E')) return;
  rest.remove_prefix(1);
  if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
  if (take_digits(rest) > 0) text = rest;
}

}  // namespace

std::string_view odd_notation(std::string_view text) {
  if (is_infinity(text)) return "is not finite";
  if (is_hexadecimal(text)) return "is hexadecimal";
  const bool is_bracketed = text.size() > 2 && text.front() == '(' && text.back() == ')';
  if (is_bracketed) text = text.substr(1, text.size() - 2);
  bool has_unit = false, is_divided = false, has_comma = false;
  if (!is_bracketed && (text.starts_with('-') || text.starts_with('+'))) text.remove_prefix(1);
  take_blanks(text);
  if (take(text, currencies)) has_unit = true;
  take_blanks(text);
  if (has_unit && (text.starts_with('-') || text.starts_with('+'))) text.remove_prefix(1);
  if (!take_digit_groups(text, is_divided, has_comma)) return "";
  const std::size_t before = text.size();
  take_exponent(text);
  const bool has_exponent = text.size() < before;
  take_blanks(text);
  if (!text.empty() && !is_unit(text)) return "";
  if (has_unit || !text.empty()) return "is written with a unit or a currency";
  if (is_divided) return has_comma ? "is written with a comma" : "is written in parts";
  if (is_bracketed) return "is written in brackets";
  return has_exponent ? "is too large or too small" : "is written with more than one point";
}

}  // namespace trainer
