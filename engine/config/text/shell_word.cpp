#include "engine/config/text/shell_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

/// As $'…', where everything but plain ASCII is written as its byte: nothing of it is obeyed, and a shell reads it
/// back.
std::string quoted_by_codes(const std::string& word) {
  std::string text = "$'";
  for (const char c : word) {
    const bool plain = c >= ' ' && c <= '~' && c != '\'' && c != '\\';
    text += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text + '\'';
}

}  // namespace

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain_marks = "._=-+:/,@%";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || plain_marks.find(c) != std::string_view::npos;
  });
  if (plain) return word;
  if (const bool is_shown = escaped(word) == word && word.find('\n') == std::string::npos; !is_shown)
    return quoted_by_codes(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + '\'';
}

}  // namespace trainer
