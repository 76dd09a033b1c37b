#include "datasets/text/text_cut.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/text/text_pattern.h"

namespace trainer {
namespace {

/// Llama 3's with single digits, which Qwen's files have.
constexpr std::string_view qwen_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool ends_pieces_at_blanks(const std::string& expression) {
  return expression == gpt2_expression || expression == llama3_expression || expression == qwen_expression;
}

bool is_of_one_class(const std::string& expression) {
  return expression == R"(\p{N})" || expression == R"(\p{N}+)" || expression == R"(\p{N}{1,3})";
}

/// Whether a byte is the last of no white space: Unicode's end in 0x80 to 0xAF.
bool is_no_end_of_space(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return (value > 0x20 && value < 0x7F) || value >= 0xB0;
}

}  // namespace

TextCut::TextCut(const Tokenizer& tokenizer) {
  const TokenizerDefinition& definition = tokenizer.definition();
  const bool is_of_bytes = definition.merges.empty() && !definition.ignores_merges;
  const std::vector<std::string>& expressions = definition.expressions;
  is_at_blanks_ = is_of_bytes || (std::ranges::any_of(expressions, ends_pieces_at_blanks) &&
                                  std::ranges::all_of(expressions, [](const std::string& expression) {
                                    return ends_pieces_at_blanks(expression) || is_of_one_class(expression);
                                  }));
  is_anywhere_ = is_of_bytes && !definition.composes;
  for (const AddedToken& token : definition.added_tokens) {
    if (token.is_special) continue;
    is_anywhere_ = false;
    if (token.content.find(' ', 1) != std::string::npos) is_at_blanks_ = false;
  }
}

std::size_t TextCut::last(std::string_view text) const {
  if (is_anywhere_) return text.size();
  if (!is_at_blanks_) return 0;
  for (std::size_t at = text.rfind(' '); at != std::string_view::npos && at > 0; at = text.rfind(' ', at - 1))
    if (is_no_end_of_space(text[at - 1])) return at;
  return 0;
}

}  // namespace trainer
