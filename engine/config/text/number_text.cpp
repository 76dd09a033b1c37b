#include "engine/config/text/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include <fmt/format.h>

namespace trainer {
namespace {

constexpr std::size_t longest_number = 400;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool all_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

/// Mistakes that people make in both kinds of numbers.
NumberMistake mistake_in(std::string_view text) {
  std::string without_underscores(text);
  std::erase(without_underscores, '_');
  if (without_underscores.size() != text.size() && all_digits(without_sign(without_underscores))) {
    return {"has underscores", without_underscores};
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  const std::string_view magnitude = without_sign(lower);
  if (magnitude == "nan" || magnitude == ".nan" || magnitude == "inf" || magnitude == ".inf" ||
      magnitude == "infinity") {
    return {"is not finite", ""};
  }
  if (magnitude.starts_with("0x") || magnitude.starts_with("0o") || magnitude.starts_with("0b")) {
    return {"is not decimal", "a decimal number"};
  }
  return {};
}

NumberMistake leading_zero(std::string_view text) {
  const std::string_view magnitude = without_sign(text);
  const std::size_t first = std::min(magnitude.find_first_not_of('0'), magnitude.size() - 1);
  return {"has a leading zero, which some readers take for octal",
          fmt::format("{}{}", text[0] == '-' ? "-" : "", magnitude.substr(first))};
}

/// digits[.digits][e[±]digits] with at least one digit before the exponent.
bool is_decimal(std::string_view magnitude) {
  std::size_t at = 0;
  std::size_t num_digits = 0;
  const auto skip_digits = [&] {
    const std::size_t begin = at;
    while (at < magnitude.size() && is_digit(magnitude[at])) ++at;
    return at - begin;
  };
  num_digits += skip_digits();
  if (at < magnitude.size() && magnitude[at] == '.') {
    ++at;
    num_digits += skip_digits();
  }
  if (num_digits == 0) return false;
  if (at < magnitude.size() && (magnitude[at] == 'e' || magnitude[at] == 'E')) {
    ++at;
    if (at < magnitude.size() && (magnitude[at] == '-' || magnitude[at] == '+')) ++at;
    if (skip_digits() == 0) return false;
  }
  return at == magnitude.size();
}

double parse_decimal(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Out of range is either too small, which is 0 for every purpose here, or too large.
  if (error == std::errc::result_out_of_range) {
    const std::size_t exponent = text.find_first_of("eE");
    const bool is_tiny = exponent != std::string_view::npos && text.substr(exponent + 1, 1) == "-";
    return is_tiny ? 0.0 : HUGE_VAL;
  }
  return number;
}

}  // namespace

std::variant<std::int64_t, NumberMistake> read_integer(std::string_view text) {
  const std::string_view magnitude = without_sign(text);
  if (text.size() > longest_number) return NumberMistake{"is too long for a number", ""};
  if (!all_digits(magnitude)) {
    if (is_decimal(magnitude)) {
      const double number = parse_decimal(text);
      const bool is_whole = std::isfinite(number) && number == std::floor(number) && std::abs(number) < 9e15;
      return NumberMistake{"is not an integer", is_whole ? fmt::format("{}", static_cast<std::int64_t>(number)) : ""};
    }
    return mistake_in(text);
  }
  if (magnitude.size() > 1 && magnitude[0] == '0') return leading_zero(text);
  std::int64_t number = 0;
  const std::string_view digits = text[0] == '+' ? magnitude : text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{}) return NumberMistake{"does not fit into 64 bits", "", /*is_too_large=*/true};
  return number;
}

std::variant<double, NumberMistake> read_number(std::string_view text) {
  const std::string_view magnitude = without_sign(text);
  if (text.size() > longest_number) return NumberMistake{"is too long for a number", ""};
  if (!is_decimal(magnitude)) return mistake_in(text);
  if (all_digits(magnitude) && magnitude.size() > 1 && magnitude[0] == '0') return leading_zero(text);
  const double number = parse_decimal(text);
  if (!std::isfinite(number)) return NumberMistake{"is not finite", ""};
  return number;
}

std::string number_text(double number) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), end};
}

}  // namespace trainer
