#include "datasets/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "datasets/text/composed_text.h"
#include "datasets/text/piece_merger.h"
#include "datasets/text/text_encoder.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// An added token is its content, also where the vocabulary has it, whose characters stand for bytes elsewhere: no text
/// becomes it but its own.
std::vector<VocabularyEntry> entries_with_added(const TokenizerDefinition& definition) {
  std::vector<VocabularyEntry> entries = definition.vocabulary;
  std::vector<std::uint32_t> place_and_one(most_token_ids);
  for (std::size_t i = 0; i < entries.size(); ++i) place_and_one[entries[i].id] = static_cast<std::uint32_t>(i + 1);
  std::vector<bool> is_content_alone(most_token_ids);
  for (const AddedToken& token : definition.added_tokens) {
    const std::uint32_t place = place_and_one[token.id];
    const bool differs = place == 0 || entries[place - 1].bytes != token.content;
    if (!differs) continue;
    is_content_alone[token.id] = true;
    const VocabularyEntry entry{token.id, token.content, false};
    if (place == 0)
      entries.push_back(entry);
    else
      entries[place - 1] = entry;
  }
  for (const TokenMerge& merge : definition.merges)
    for (const TokenId id : {merge.left, merge.right, merge.result})
      if (is_content_alone[id])
        throw DataError(fmt::format("the token {} is an added one and, of other bytes, one of a merge", id));
  return entries;
}

std::array<AddedTokenFinder, 2> finders_of(const TokenizerDefinition& definition, bool with_special) {
  std::array<std::vector<AddedToken>, 2> parts;
  TextComposer composer;
  for (AddedToken token : definition.added_tokens) {
    if (!with_special && token.is_special) continue;
    if (definition.composes && token.is_normalized) token.content = std::string(composer.compose(token.content));
    parts[token.is_normalized ? 1 : 0].push_back(std::move(token));
  }
  return {AddedTokenFinder(std::move(parts[0])), AddedTokenFinder(std::move(parts[1]))};
}

}  // namespace

Tokenizer::Tokenizer(TokenizerDefinition definition)
    : definition_(std::move(definition)),
      pattern_(definition_.expressions),
      merges_(definition_.merges),
      plain_finders_(finders_of(definition_, false)),
      all_finders_(finders_of(definition_, true)) {
  const std::vector<VocabularyEntry> entries = entries_with_added(definition_);
  vocabulary_ = Vocabulary(entries);
  is_whole_piece_.resize(vocabulary_.num_ids());
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const auto letter = static_cast<char>(byte);
    const std::optional<TokenId> id = vocabulary_.find(std::string_view(&letter, 1));
    if (!id)
      throw DataError(fmt::format("the vocabulary lacks the byte 0x{:02x}: not every text can be encoded", byte));
    byte_ids_[byte] = *id;
  }
  PieceMerger merger;
  std::vector<TokenId> ids;
  for (const VocabularyEntry& entry : entries) {
    if (!entry.is_found) continue;
    ids.clear();
    for (const char byte : entry.bytes) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    is_whole_piece_[entry.id] =
        definition_.ignores_merges || (merger.merge(merges_, ids) == 1 && ids.front() == entry.id);
  }
}

Tokenizer Tokenizer::bytes() {
  TokenizerDefinition definition;
  for (TokenId byte = 0; byte < 256; ++byte)
    definition.vocabulary.push_back({byte, std::string(1, static_cast<char>(byte))});
  return Tokenizer(std::move(definition));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<TokenId> ids;
  TextEncoder(*this, /*remembers_pieces=*/false).encode(text, special, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) {
    const std::string_view token = vocabulary_.bytes(id);
    if (token.empty()) throw DataError(fmt::format("{} is no token: ids are below {}", id, num_ids()));
    bytes += token;
  }
  return bytes;
}

std::optional<TokenId> Tokenizer::special_token(std::string_view content) const {
  for (const AddedToken& token : definition_.added_tokens)
    if (token.is_special && token.content == content) return token.id;
  return std::nullopt;
}

}  // namespace trainer
