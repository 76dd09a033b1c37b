#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/text/token_id.h"

namespace trainer {

/// A token that stands in a text as it is, whatever is around it, and is cut out before the rest is.
struct AddedToken {
  TokenId id = 0;
  std::string content;      ///< 1 to most_added_token_bytes
  bool is_special = false;  ///< such as <|endoftext|>: found where that is asked for alone
  /// Looked for where those that are not so have been cut out; the order that `tokenizers` has.
  bool is_normalized = false;
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

inline constexpr std::size_t most_added_token_bytes = 512;

/// Finds some added tokens in texts. Immutable.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  /// Contents are each one's own.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  struct Found {
    std::size_t begin, num_bytes;
    TokenId id;
  };
  /// The leftmost one from `at` on, of those that begin there the longest.
  std::optional<Found> find(std::string_view text, std::size_t at) const;

 private:
  std::vector<AddedToken> tokens_;  ///< by content
  std::array<bool, 256> can_begin_{};
};

}  // namespace trainer
