#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "datasets/text/composed_text.h"
#include "datasets/text/piece_merger.h"
#include "datasets/text/tokenizer.h"

namespace trainer {

/// Encodes texts; one thread's own. It remembers what short pieces became (1 MiB), and allocates nothing for a piece
/// once the longest was met.
class TextEncoder {
 public:
  /// `tokenizer` must outlive it. Without memory of pieces it is cheap to make, for a short text.
  explicit TextEncoder(const Tokenizer& tokenizer, bool remembers_pieces = true);

  /// Called with some ids after the other; what they lie in is used again.
  using TakeTokens = std::function<void(std::span<const TokenId> ids)>;
  /// Gives `take` the ids of a text in order, many at once: of a long text's never all, unless it is one piece.
  void encode(std::string_view text, SpecialTokens special, const TakeTokens& take);
  /// Adds the ids to `ids`.
  void encode(std::string_view text, SpecialTokens special, std::vector<TokenId>& ids);

 private:
  /// What a piece of at most `most_bytes` became: at most `most_ids`. A line of the processor's cache.
  struct RememberedPiece {
    static constexpr std::size_t most_bytes = 22, most_ids = 10;
    std::uint8_t num_bytes = 0, num_ids = 0;
    std::array<char, most_bytes> bytes;
    std::array<TokenId, most_ids> ids;
  };

  void encode_between_added(std::string_view text, const Tokenizer::Finders& finders, std::size_t level);
  void encode_plain(std::string_view text);
  void encode_piece(std::string_view piece);
  void hand_over();

  const Tokenizer* tokenizer_;
  TextComposer composer_;
  PatternMatcher matcher_;
  PieceMerger merger_;
  std::vector<TokenId> ids_;  ///< not yet handed over
  std::vector<RememberedPiece> remembered_;
  const TakeTokens* take_ = nullptr;
};

}  // namespace trainer
