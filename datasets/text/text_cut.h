#pragma once

#include <cstddef>
#include <string_view>

#include "datasets/text/tokenizer.h"

namespace trainer {

// Note [Texts in stretches]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A text that does not fit in memory is encoded a stretch at a time, which must give the tokens of the whole. Where
// bytes are all that a tokenizer has, it may be cut anywhere. GPT-2's and Llama 3's expressions end a piece in front of
// each blank (U+0020) that stands behind anything but white space: a blank is the first of a piece or behind white
// space. Nor does a match in front of it depend on what follows: \s+(?!\S) alone looks ahead, by a character, and no
// white space ends there. An expression of one class, such as \p{N}+, sees nothing but what it matches, so it may stand
// beside them. An added token must not reach beyond the cut. No blank is composed with what stands in front of it. Of
// all other expressions nothing is known.

/// Where texts may be cut so that the tokens of the parts, one behind the other, are those of the whole, special tokens
/// taken as text.
class TextCut {
 public:
  explicit TextCut(const Tokenizer& tokenizer);

  /// Whether there may be such places.
  bool is_known() const { return is_anywhere_ || is_at_blanks_; }
  /// The last one that is known within a part of a text or at its end; 0: none.
  std::size_t last(std::string_view text) const;

 private:
  bool is_anywhere_ = false, is_at_blanks_ = false;
};

}  // namespace trainer
