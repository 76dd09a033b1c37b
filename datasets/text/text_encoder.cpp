#include "datasets/text/text_encoder.h"

#include <algorithm>
#include <cstring>

#include "datasets/text/byte_hash.h"

namespace trainer {
namespace {

constexpr std::size_t num_remembered = std::size_t{1} << 14U;
constexpr std::size_t ids_at_once = std::size_t{1} << 16U;

template <typename Word>
bool same_word(const char* a, const char* b) {
  return std::memcmp(a, b, sizeof(Word)) == 0;
}

/// Of 2 bytes or more, by words that overlap.
bool are_equal(const char* a, const char* b, std::size_t num_bytes) {
  const auto ends_are_equal = [&]<typename Word>(Word) {
    const std::size_t last = num_bytes - sizeof(Word);
    return same_word<Word>(a, b) && same_word<Word>(a + last, b + last);
  };
  if (num_bytes < 4) return ends_are_equal(std::uint16_t{});
  if (num_bytes <= 8) return ends_are_equal(std::uint32_t{});
  if (num_bytes <= 16) return ends_are_equal(std::uint64_t{});
  return std::memcmp(a, b, num_bytes) == 0;
}

}  // namespace

TextEncoder::TextEncoder(const Tokenizer& tokenizer, bool remembers_pieces)
    : tokenizer_(&tokenizer),
      matcher_(tokenizer.pattern_),
      remembered_(remembers_pieces && !tokenizer.definition_.merges.empty() ? num_remembered : 0) {
  static_assert(sizeof(RememberedPiece) == 64);
}

void TextEncoder::encode(std::string_view text, SpecialTokens special, const TakeTokens& take) {
  take_ = &take;
  ids_.clear();
  const bool with_special = special == SpecialTokens::as_tokens;
  encode_between_added(text, with_special ? tokenizer_->all_finders_ : tokenizer_->plain_finders_, 0);
  hand_over();
  take_ = nullptr;
}

void TextEncoder::encode(std::string_view text, SpecialTokens special, std::vector<TokenId>& ids) {
  encode(text, special, [&ids](std::span<const TokenId> more) { ids.insert(ids.end(), more.begin(), more.end()); });
}

void TextEncoder::encode_between_added(std::string_view text, const Tokenizer::Finders& finders, std::size_t level) {
  if (level == finders.size()) return encode_plain(text);
  if (level == 1 && tokenizer_->definition_.composes) text = composer_.compose(text);
  std::size_t at = 0;
  while (const auto found = finders[level].find(text, at)) {
    encode_between_added(text.substr(at, found->begin - at), finders, level + 1);
    ids_.push_back(found->id);
    if (ids_.size() >= ids_at_once) hand_over();
    at = found->begin + found->num_bytes;
  }
  encode_between_added(text.substr(at), finders, level + 1);
}

void TextEncoder::encode_plain(std::string_view text) {
  if (tokenizer_->definition_.merges.empty() && !tokenizer_->definition_.ignores_merges) {
    // Bytes alone, for which a text need not be cut.
    for (const char byte : text) {
      ids_.push_back(tokenizer_->byte_ids_[static_cast<unsigned char>(byte)]);
      if (ids_.size() >= ids_at_once) hand_over();
    }
    return;
  }
  matcher_.for_each_piece(text, [this](std::string_view piece) {
    encode_piece(piece);
    if (ids_.size() >= ids_at_once) hand_over();
  });
}

void TextEncoder::hand_over() {
  if (!ids_.empty()) (*take_)(ids_);
  ids_.clear();
}

void TextEncoder::encode_piece(std::string_view piece) {
  const auto byte_id = [this](char byte) { return tokenizer_->byte_ids_[static_cast<unsigned char>(byte)]; };
  if (piece.size() == 1) return ids_.push_back(byte_id(piece.front()));
  const std::uint64_t hash = byte_hash(piece);
  RememberedPiece* remembered = nullptr;
  if (!remembered_.empty() && piece.size() <= RememberedPiece::most_bytes) {
    remembered = &remembered_[hash >> 16U & (num_remembered - 1)];
    if (remembered->num_bytes == piece.size() && are_equal(remembered->bytes.data(), piece.data(), piece.size())) {
      // All of them are copied, which costs less than to ask how many there are.
      const std::size_t count = ids_.size();
      ids_.resize(count + RememberedPiece::most_ids);
      std::copy(remembered->ids.begin(), remembered->ids.end(), ids_.begin() + static_cast<std::ptrdiff_t>(count));
      ids_.resize(count + remembered->num_ids);
      return;
    }
  }
  const std::size_t begin = ids_.size();
  const std::optional<TokenId> whole = tokenizer_->vocabulary_.find(piece, hash);
  if (whole && tokenizer_->is_whole_piece_[*whole]) {
    ids_.push_back(*whole);
  } else {
    for (const char byte : piece) ids_.push_back(byte_id(byte));
    ids_.resize(begin + merger_.merge(tokenizer_->merges_, std::span(ids_).subspan(begin)));
  }
  const std::size_t count = ids_.size() - begin;
  if (remembered == nullptr || count > RememberedPiece::most_ids) return;
  remembered->num_bytes = static_cast<std::uint8_t>(piece.size());
  remembered->num_ids = static_cast<std::uint8_t>(count);
  std::copy(piece.begin(), piece.end(), remembered->bytes.begin());
  std::copy(ids_.begin() + static_cast<std::ptrdiff_t>(begin), ids_.end(), remembered->ids.begin());
}

}  // namespace trainer
