#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/text/tokenizer.h"

namespace trainer {

/// What a vocabulary is learned by.
struct TokenizerTraining {
  std::uint32_t vocabulary_size = 0;  ///< with the 256 bytes and the special tokens, which come first
  std::string expression = std::string(gpt2_expression);
  std::vector<std::string> special_tokens = {};
  std::uint64_t min_count = 0;  ///< of a pair that is merged
};

// Note [Learning merges]
// ~~~~~~~~~~~~~~~~~~~~~~
// The pair of neighbours that is most frequent in all texts becomes a token, of several the one of the smallest ids,
// until the vocabulary is full or no pair is left. It is learned as BpeTrainer of `tokenizers` learns it, token for
// token and merge for merge, with ByteLevel's alphabet at the start, each text being one sequence. That goes as far as
// a peculiarity of its counting: a pair keeps its count when it has been merged, so that where it arises anew, by a
// second way to the same token, its old occurrences are counted again. A pair that is merged twice has the rank of the
// second time.

/// Learns a byte-level BPE vocabulary from texts.
class TokenizerTrainer {
 public:
  /// Throws ConfigError where the vocabulary is too small for bytes and special tokens or too large, or a special token
  /// is empty, too long, not UTF-8, there twice or the text
  /// that stands for other bytes in files (such as 'é'); DataError for an expression.
  explicit TokenizerTrainer(TokenizerTraining training);

  /// Counts the pieces of a text, whose end ends a piece.
  void add(std::string_view text);
  std::uint64_t num_bytes() const { return num_bytes_; }
  /// That differ.
  std::size_t num_pieces() const { return counts_.size(); }

  /// Of all texts that were added. The vocabulary is smaller than asked for where no pair is left to be merged.
  TokenizerDefinition train() const;

 private:
  struct PieceHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view piece) const { return byte_hash(piece); }
  };

  TokenizerTraining training_;
  TextPattern pattern_;
  std::unordered_map<std::string, std::uint64_t, PieceHash, std::equal_to<>> counts_;
  std::uint64_t num_bytes_ = 0;
};

}  // namespace trainer
