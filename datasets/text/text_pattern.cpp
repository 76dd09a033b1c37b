#include "datasets/text/text_pattern.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "datasets/text/utf8_stretch.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace trainer {

template <auto free>
struct FreeByFunction {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using CompiledExpression = std::unique_ptr<pcre2_code, FreeByFunction<pcre2_code_free>>;

namespace {

constexpr std::size_t most_expression_bytes = std::size_t{16} << 10U;
// Each retry of a match within a text is a step; an expression that reads a text a few times from end to end stays
// below.
constexpr std::uint64_t first_match_steps = 10'000, match_steps_a_byte = 64;
constexpr std::uint32_t most_match_kib = std::uint32_t{64} << 10U;

DataError expression_error(std::string_view expression, std::size_t at, std::string_view what) {
  return DataError(fmt::format("the regular expression {}, at byte {}: {}", shortened(expression, 200), at, what));
}

/// Whether a count such as {1,3} ends there and a + makes it possessive, which `tokenizers` takes for a repetition.
bool is_possessive_count(const std::string& expression, std::size_t at) {
  if (expression.compare(at, 2, "}+") != 0) return false;
  const std::size_t begin = expression.rfind('{', at);
  return begin != std::string::npos && expression.find_first_not_of("0123456789,", begin + 1) == at;
}

/// Whether flags stand there that are not (?i: or (?i) alone.
bool is_other_flag(const std::string& expression, std::size_t at) {
  if (expression.compare(at, 2, "(?") != 0 || at + 2 >= expression.size()) return false;
  const char next = expression[at + 2];
  if (next == 'i') return at + 3 >= expression.size() || (expression[at + 3] != ':' && expression[at + 3] != ')');
  return (next >= 'a' && next <= 'z') || next == '-' || next == '^';
}

/// The expression as PCRE2 means the same by it.
std::string for_pcre2(const std::string& expression) {
  if (expression.empty()) throw DataError("a regular expression is empty");
  if (expression.size() > most_expression_bytes)
    throw DataError(
        fmt::format("a regular expression of {} bytes, at most {} are read", expression.size(), most_expression_bytes));
  if (const std::size_t bad = utf8_stretch(expression); bad < expression.size())
    throw expression_error(expression, bad, "it is not UTF-8");
  constexpr std::size_t npos = std::string::npos;
  std::string written;
  bool in_class = false;
  std::size_t class_begin = npos;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    for (const std::string_view other : {"&&", "{,", "(*"})
      if (expression.compare(i, other.size(), other) == 0)
        throw expression_error(expression, i, fmt::format("{} is not supported", other));
    if (is_possessive_count(expression, i)) throw expression_error(expression, i, "}+ behind a count is not supported");
    if (is_other_flag(expression, i)) throw expression_error(expression, i, "of flags (?i: alone is supported");
    in_class = (in_class && expression[i] != ']') || (!in_class && expression[i] == '[');
    if (in_class && expression[i] == '[' && class_begin != npos)
      throw expression_error(expression, i, "a class in a class is not supported");
    class_begin = !in_class ? npos : class_begin == npos ? i : class_begin;
    if (expression[i] != '\\' || i + 1 == expression.size()) {
      written.push_back(expression[i]);
      continue;
    }
    const char escaped_letter = expression[++i];
    switch (escaped_letter) {
      case 's':
      case 'S':  // PCRE2's has U+180E, too
        written += escaped_letter == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
        break;
      case 'w':
      case 'W':
      case 'b':
      case 'B':
      case 'h':
      case 'H':
      case 'K':
      case 'Q':
      case 'R':
      case 'X':
        throw expression_error(expression, i - 1, fmt::format("\\{} is not supported", escaped_letter));
      default:
        written += {'\\', escaped_letter};
    }
  }
  return written;
}

std::string pcre2_message(int error) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

CompiledExpression compile_expression(const std::string& expression) {
  const std::string written = for_pcre2(expression);
  int error = 0;
  std::size_t at = 0;
  constexpr std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  CompiledExpression code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(), options, &error, &at, nullptr));
  if (!code) throw expression_error(written, at, pcre2_message(error));
  // Where that cannot be, it is interpreted.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

}  // namespace

// openai/gpt-2, encoder.py; the blank in front of `\p{L}` and others is the word's.
const std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// meta-llama/llama3, tokenizer.py.
const std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string pattern_library_version() {
  std::array<char, 64> version{}, unicode{};
  pcre2_config(PCRE2_CONFIG_VERSION, version.data());
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode.data());
  return fmt::format("{}, Unicode {}", version.data(), unicode.data());
}

struct TextPattern::Expression {
  std::string text;
  CompiledExpression code;
  bool is_compiled = false;  ///< for the machine

  explicit Expression(const std::string& expression) : text(expression), code(compile_expression(expression)) {
    std::size_t machine_bytes = 0;
    is_compiled = pcre2_pattern_info(code.get(), PCRE2_INFO_JITSIZE, &machine_bytes) == 0 && machine_bytes > 0;
  }
};

TextPattern::TextPattern(std::span<const std::string> expressions) {
  for (const std::string& expression : expressions) expressions_.emplace_back(expression);
}

TextPattern::~TextPattern() = default;
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;

struct PatternMatcher::Scratch {
  std::unique_ptr<pcre2_match_data, FreeByFunction<pcre2_match_data_free>> match{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, FreeByFunction<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};

  Scratch() {
    if (!match || !context) throw std::bad_alloc();
    pcre2_set_heap_limit(context.get(), most_match_kib);
  }

  /// Where the next match from `at` on begins and ends; nothing where there is none.
  std::optional<std::pair<std::size_t, std::size_t>> find(const TextPattern::Expression& expression,
                                                          std::string_view text, std::size_t at) {
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const pcre2_code* const code = expression.code.get();
    const auto interpreted = [&] {
      return pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(), context.get());
    };
    int result = expression.is_compiled
                     ? pcre2_jit_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.get(), context.get())
                     : interpreted();
    // The compiled form keeps what it may go back to on a stack of 32 KiB.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = interpreted();
    if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (result < 0)
      throw DataError(fmt::format("the regular expression {} cannot be matched from byte {} of a text of {} bytes: {}",
                                  shortened(expression.text, 200), at, text.size(), pcre2_message(result)));
    const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(match.get());
    return std::pair(bounds[0], bounds[1]);
  }
};

PatternMatcher::PatternMatcher(const TextPattern& pattern)
    : pattern_(&pattern), scratch_(std::make_unique<Scratch>()) {}
PatternMatcher::~PatternMatcher() = default;
PatternMatcher::PatternMatcher(PatternMatcher&&) noexcept = default;
PatternMatcher& PatternMatcher::operator=(PatternMatcher&&) noexcept = default;

void PatternMatcher::for_each_piece(std::string_view text, const TakePiece& take) {
  if (pattern_->expressions_.empty()) {
    if (!text.empty()) take(text);
    return;
  }
  while (!text.empty()) {
    const std::size_t length = utf8_stretch(text);
    if (length > 0) {
      const std::uint64_t steps = first_match_steps + match_steps_a_byte * length;
      pcre2_set_match_limit(scratch_->context.get(),
                            static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, UINT32_MAX)));
      cut(0, text.substr(0, length), take);
    }
    if (length < text.size()) take(text.substr(length, 1));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
}

void PatternMatcher::cut(std::size_t level, std::string_view text, const TakePiece& take) {
  if (level == pattern_->expressions_.size()) return take(text);
  const TextPattern::Expression& expression = pattern_->expressions_[level];
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = scratch_->find(expression, text, at);
    if (!found) break;
    const auto [begin, end] = *found;
    if (begin > done) cut(level + 1, text.substr(done, begin - done), take);
    if (end > begin) cut(level + 1, text.substr(begin, end - begin), take);
    done = end;
    at = end;
    if (end == begin) {  // on by a character
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U);
    }
  }
  if (done < text.size()) cut(level + 1, text.substr(done), take);
}

}  // namespace trainer
