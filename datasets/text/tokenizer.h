#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/text/added_token_finder.h"
#include "datasets/text/merge_table.h"
#include "datasets/text/text_pattern.h"
#include "datasets/text/token_id.h"
#include "datasets/text/vocabulary.h"

namespace trainer {

// Note [Byte-level BPE]
// ~~~~~~~~~~~~~~~~~~~~~
// A text is cut into pieces by a regular expression (Note [Pieces of a text] in text_pattern.h), each piece begins as
// its bytes, and neighbours are merged by a list of merges, the earliest first, until none is left: byte-pair encoding
// as GPT-2, RoBERTa, Llama 3 and most that came after them have it. All 256 bytes are tokens, so that any bytes can be
// encoded and decode(encode(x)) == x holds for all of them, or, where texts are composed first (composed_text.h), for
// those that are composed; no token is put in front.

/// What makes a tokenizer, as files have it.
struct TokenizerDefinition {
  std::vector<std::string> expressions;  ///< each cuts the pieces of the one before it; none: a text is one piece
  std::vector<VocabularyEntry> vocabulary;
  std::vector<TokenMerge> merges;        ///< the lowest rank first
  std::vector<AddedToken> added_tokens;  ///< those whose ids `vocabulary` lacks are tokens beside it
  bool ignores_merges = false;           ///< a piece that is a token as a whole is that token, merges or not
  bool composes = false;                 ///< what stands between added tokens without normalization is composed first
};

/// What becomes of the contents of special tokens where they stand in a text.
enum class SpecialTokens {
  as_text,   ///< text as any other, which nobody can feign
  as_tokens  ///< these tokens
};

/// Texts to tokens and back. Immutable: any number of threads may use it. A TextEncoder (text_encoder.h) encodes many
/// texts faster than encode() does.
class Tokenizer {
 public:
  /// Throws DataError where a byte is no token, or an expression is not supported. Ids, contents and merges are those
  /// of load_tokenizer or train_tokenizer, which have checked them.
  explicit Tokenizer(TokenizerDefinition definition);
  /// Every byte is a token, with its value as id.
  static Tokenizer bytes();

  /// One more than the highest id; some below it may be left out.
  TokenId num_ids() const { return vocabulary_.num_ids(); }
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special = SpecialTokens::as_text) const;
  /// Special tokens as their content. Throws DataError where an id is no token.
  std::string decode(std::span<const TokenId> ids) const;
  /// The bytes of a token; empty where there is none of that id.
  std::string_view token_bytes(TokenId id) const { return vocabulary_.bytes(id); }
  /// The id of a special token by its content.
  std::optional<TokenId> special_token(std::string_view content) const;

  const TokenizerDefinition& definition() const { return definition_; }

 private:
  friend class TextEncoder;
  /// Those without normalization first, then the others.
  using Finders = std::array<AddedTokenFinder, 2>;

  TokenizerDefinition definition_;
  TextPattern pattern_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_{};
  std::vector<bool> is_whole_piece_;  ///< by id: a piece of these bytes becomes this token
  Finders plain_finders_, all_finders_;
};

}  // namespace trainer
