#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace trainer {

/// Why a text is no number, and what to write instead where that can be told.
struct NumberMistake {
  std::string message;      ///< "has a leading zero"; empty: not a number at all
  std::string expectation;  ///< "10"; empty: what the rule says
  bool is_too_large = false;
};

/// Decimal integers, nothing else: no leading zeros (010 is 8 to some readers), no underscores, no hexadecimal.
std::variant<std::int64_t, NumberMistake> read_integer(std::string_view text);

/// Decimal numbers such as 1, 0.5, .5, 1e-3; finite.
std::variant<double, NumberMistake> read_number(std::string_view text);

/// The shortest text that reads back to the same number.
std::string number_text(double number);

}  // namespace trainer
