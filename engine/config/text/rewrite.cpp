#include "engine/config/text/rewrite.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <cctype>

#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"

namespace trainer {
namespace {

re2::RE2::Options rewrite_options() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(Rewrite::most_program_bytes);
  return options;
}

/// "$1", as other languages write what is "\\1" here.
bool has_dollar_group(std::string_view text) {
  for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1))
    if (at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0) return true;
  return false;
}

/// The one text that an expression without anchors matches.
std::optional<std::string> literal_text(std::string_view expression) {
  constexpr std::string_view special = ".+*?()|[]{}^$";
  std::string text;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    char letter = expression[i];
    if (special.find(letter) != std::string_view::npos) return std::nullopt;
    if (letter == '\\') {
      if (++i == expression.size() || std::ispunct(static_cast<unsigned char>(expression[i])) == 0) return std::nullopt;
      letter = expression[i];
    }
    text += letter;
  }
  return text;
}

/// What a replacement without groups puts in; "\\\\" is a backslash.
std::optional<std::string> replacing_text(std::string_view replacement) {
  std::string text;
  for (std::size_t i = 0; i < replacement.size(); ++i) {
    if (replacement[i] == '\\' && replacement.substr(i, 2) != "\\\\") return std::nullopt;
    if (replacement[i] == '\\') ++i;
    text += replacement[i];
  }
  return text;
}

}  // namespace

std::optional<TextPair> backwards(const TextPair& texts) {
  std::string_view expression = texts[0];
  const bool at_begin = expression.starts_with('^');
  if (at_begin) expression.remove_prefix(1);
  const bool at_end = expression.ends_with('$') && !expression.ends_with("\\$");
  if (at_end) expression.remove_suffix(1);
  const std::optional<std::string> found = literal_text(expression), put = replacing_text(texts[1]);
  if (!found || !put || (put->empty() && at_begin == at_end)) return std::nullopt;
  std::string replacement;
  for (const char letter : *found) replacement += letter == '\\' ? "\\\\" : std::string(1, letter);
  return TextPair{(at_begin ? "^" : "") + re2::RE2::QuoteMeta(*put) + (at_end ? "$" : ""), replacement};
}

RewriteMistake mistake_in_rewrite(const TextPair& texts) {
  const auto& [pattern, replacement] = texts;
  if (pattern.empty()) return {"an empty regular expression matches everywhere", "what a name has to have in it"};
  const re2::RE2 expression(pattern, rewrite_options());
  if (!expression.ok())
    return {fmt::format("'{}' is no regular expression: {}", shortened(pattern), shortened(expression.error(), 120)),
            "RE2's syntax: as Perl's, without look-around and references back"};
  if (has_dollar_group(replacement))
    return {fmt::format("'{}' names a group with '$'", shortened(replacement)),
            R"(\1 for what the first group matched)"};
  std::string error;
  if (!expression.CheckRewriteString(replacement, &error))
    return {
        fmt::format("'{}' cannot replace '{}': {}", shortened(replacement), shortened(pattern), shortened(error, 120)),
        R"(\1 for what the first of the groups in parentheses matched, \\ for a backslash)"};
  return {};
}

Rewrite::Rewrite(const TextPair& texts)
    : expression_(std::make_unique<re2::RE2>(texts[0], rewrite_options())), replacement_(texts[1]) {
  require_internal(expression_->ok(), "rewrites are checked when they are read");
}

Rewrite::~Rewrite() = default;
Rewrite::Rewrite(Rewrite&&) noexcept = default;

bool Rewrite::apply(std::string& text) const {
  require_internal(text.size() <= longest_result, "what is rewritten has a bounded length");
  return re2::RE2::GlobalReplace(&text, *expression_, replacement_) > 0;
}

}  // namespace trainer
