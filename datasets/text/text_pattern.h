#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// Note [Pieces of a text]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A regular expression cuts a text into pieces, and no token reaches beyond one. What it matches is a piece, and so is
// what lies between two matches; empty ones are left out. A second expression cuts the pieces of the first, and so on.
// They are meant as `tokenizers` takes them and run by PCRE2, over Unicode's classes: \s is White_Space, ^ and $ stand
// at each line. What the two understand differently is refused. Letters and numbers are those of PCRE2's version of
// Unicode, which `trainer doctor` tells; characters that are newer are none of them yet.
//
// Expressions know characters, texts may be any bytes. A byte that is no part of well-formed UTF-8 is a piece of its
// own, and what stands between two such bytes is cut as a text of its own.

/// GPT-2's expression, and that of Llama 3.
extern const std::string_view gpt2_expression;
extern const std::string_view llama3_expression;

/// The version of PCRE2 and of its Unicode data.
std::string pattern_library_version();

/// Expressions that are ready to cut texts; none leaves a text in one piece. Immutable: any number of threads may use
/// it.
class TextPattern {
 public:
  /// Throws DataError with the expression's place where one is no regular expression or is not supported.
  explicit TextPattern(std::span<const std::string> expressions);
  ~TextPattern();
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;

 private:
  friend class PatternMatcher;
  struct Expression;
  std::vector<Expression> expressions_;
};

/// Cuts texts; one thread's own.
class PatternMatcher {
 public:
  /// `pattern` must outlive it.
  explicit PatternMatcher(const TextPattern& pattern);
  ~PatternMatcher();
  PatternMatcher(PatternMatcher&&) noexcept;
  PatternMatcher& operator=(PatternMatcher&&) noexcept;

  using TakePiece = std::function<void(std::string_view piece)>;
  /// Calls `take` for each piece, in order; together they are the text. DataError where an expression takes far more
  /// steps than the text is long.
  void for_each_piece(std::string_view text, const TakePiece& take);

 private:
  struct Scratch;
  void cut(std::size_t level, std::string_view text, const TakePiece& take);

  const TextPattern* pattern_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace trainer
