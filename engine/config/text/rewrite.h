#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/config/text_pair.h"

namespace re2 {
class RE2;
}

namespace trainer {

/// What is wrong with the two texts of a rewrite, and what would be right; both empty: nothing.
struct RewriteMistake {
  std::string message, expectation;
};
RewriteMistake mistake_in_rewrite(const TextPair& texts);

/// Replaces what a regular expression matches. Expressions are RE2's: Perl's without look-around and references back to
/// groups, so that no expression takes more than time in proportion to the text, and none more memory than
/// `most_program_bytes`. In the replacement `\1` stands for what the first group matched, `\0` for all of it.
class Rewrite {
 public:
  static constexpr std::size_t longest_result = 4096;
  static constexpr std::int64_t most_program_bytes = std::int64_t{1} << 20;

  /// mistake_in_rewrite() finds nothing wrong with the texts.
  explicit Rewrite(const TextPair& texts);
  ~Rewrite();
  Rewrite(Rewrite&&) noexcept;
  Rewrite(const Rewrite&) = delete;
  Rewrite& operator=(const Rewrite&) = delete;

  /// Replaces every match in `text`, which is at most `longest_result` long and may be longer than that afterwards.
  /// Whether there was one.
  bool apply(std::string& text) const;

 private:
  std::unique_ptr<re2::RE2> expression_;
  std::string replacement_;
};

/// What undoes a rewrite of one text by another, such as ['^module\.', ''], at the same end of a name where it says
/// one; nothing where the expression stands for several texts, or where it says nothing that tells where to put it
/// back.
std::optional<TextPair> backwards(const TextPair& texts);

}  // namespace trainer
