#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/text/byte_hash.h"
#include "datasets/text/token_id.h"

namespace trainer {

struct VocabularyEntry {
  TokenId id = 0;
  std::string bytes;  ///< not empty
  /// Not so: only decoding meets it, as it does added tokens.
  bool is_found = true;
};

/// Tokens by number and by bytes. Immutable.
class Vocabulary {
 public:
  Vocabulary() : Vocabulary(std::span<const VocabularyEntry>()) {}
  /// Numbers are each one's own and below `most_token_ids`; so are the bytes of what can be found.
  explicit Vocabulary(std::span<const VocabularyEntry> entries);

  /// One more than the highest number; numbers may be left out.
  TokenId num_ids() const { return static_cast<TokenId>(begins_.size() - 1); }
  /// Empty where no token has the number.
  std::string_view bytes(TokenId id) const {
    return id < num_ids() ? std::string_view(bytes_).substr(begins_[id], begins_[id + 1] - begins_[id])
                          : std::string_view();
  }
  std::optional<TokenId> find(std::string_view bytes) const { return find(bytes, byte_hash(bytes)); }
  /// The same for bytes whose byte_hash is known.
  std::optional<TokenId> find(std::string_view bytes, std::uint64_t hash) const {
    for (std::size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
      const Slot& found = slots_[slot];
      if (found.id_and_one == 0) return std::nullopt;
      if (found.hash == static_cast<std::uint32_t>(hash >> 32U) && this->bytes(found.id_and_one - 1) == bytes)
        return found.id_and_one - 1;
    }
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;  ///< the upper half
    std::uint32_t id_and_one = 0;
  };

  std::string bytes_;  ///< of all tokens, one after the other
  std::vector<std::uint32_t> begins_;
  std::vector<Slot> slots_;  ///< open addressing; a power of two, at most half of them taken
  std::size_t mask_ = 0;
};

/// Numbers of tokens are below it: more than any vocabulary has, and little enough for a table of them all.
inline constexpr TokenId most_token_ids = TokenId{1} << 20U;

}  // namespace trainer
