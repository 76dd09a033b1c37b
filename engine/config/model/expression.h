#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace trainer {

// Note [Expressions]
// ~~~~~~~~~~~~~~~~~~
// What stands in `${…}` is a name alone, which is replaced by its text, or arithmetic over 64-bit integers:
//
//   or            of truths: what is not 0 is true
//   and
//   not
//   == != < <= > >=    1 or 0; not in a row. == and != also compare words: ${norm == 'batch'}
//   + -
//   * / %         a division has no remainder, or it is a mistake; a % b has the sign of a, as in C
//   -             of one number
//   42, true, name, train.batch_size, 'word', ( … ), min(a, b, …), max(a, b, …), if(condition, then, else)
//
// `true` and `on` are 1, `false` and `off` are 0, also as the text of a name or as a word. What `if`, `and` and `or`
// leave out is not computed. A result beyond 64 bits is a mistake.

/// The longest expression, in bytes, and how deep its operands may nest.
inline constexpr std::size_t longest_expression = 1'000;
inline constexpr int deepest_expression = 32;

/// What is wrong with an expression, and where in its text.
struct ExpressionMistake {
  std::size_t begin = 0, end = 0;
  std::string message;  ///< empty: it was reported by the lookup
  std::string expectation;
};

/// The text of what a name stands for; nothing where there is no such name, which the lookup has reported.
using NameLookup = std::function<std::optional<std::string>(std::string_view name, std::size_t begin)>;

/// Whether the text is one name: letters, digits and `_`, parts joined by dots, no digit first.
bool is_name(std::string_view text);

/// Of `true`, `on`, `false` and `off`; nothing of any other text.
std::optional<bool> truth_of_word(std::string_view text);

std::variant<std::int64_t, ExpressionMistake> evaluate(std::string_view text, const NameLookup& lookup);

}  // namespace trainer
