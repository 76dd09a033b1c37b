#include "datasets/text/tokenizer_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "datasets/text/byte_alphabet.h"
#include "datasets/text/utf8_stretch.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"

namespace trainer {
namespace {

constexpr std::size_t num_byte_tokens = 256;

void check_training(const TokenizerTraining& training) {
  std::vector<std::string> special = training.special_tokens;
  const std::size_t least = num_byte_tokens + special.size();
  if (training.vocabulary_size < least || training.vocabulary_size > most_token_ids)
    throw ConfigError(
        fmt::format("a vocabulary of {} tokens: from {} (256 bytes{}) to {} can be learned", training.vocabulary_size,
                    least, special.empty() ? "" : fmt::format(" and {} special", special.size()), most_token_ids));
  std::sort(special.begin(), special.end());
  for (const std::string& token : special) {
    const std::string shown = shortened(token);
    if (token.empty()) throw ConfigError("a special token is empty");
    if (token.size() > most_added_token_bytes)
      throw ConfigError(fmt::format("the special token '{}' is longer than {} bytes", shown, most_added_token_bytes));
    if (utf8_stretch(token) < token.size())
      throw ConfigError(fmt::format("the special token '{}' is not UTF-8", shown));
    if (const auto bytes = bytes_of_characters(token); bytes && *bytes != token)
      throw ConfigError(fmt::format("the special token '{}' is what files write for other bytes", shown));
  }
  if (const auto twice = std::adjacent_find(special.begin(), special.end()); twice != special.end())
    throw ConfigError(fmt::format("the special token '{}' is there twice", shortened(*twice)));
}

using TokenPair = std::pair<TokenId, TokenId>;

struct TokenPairHash {
  std::size_t operator()(const TokenPair& pair) const {
    const std::uint64_t hash = (std::uint64_t{pair.first} << 32U | pair.second) * 0x9E3779B97F4A7C15U;
    return hash ^ hash >> 32U;
  }
};

/// A piece that differs from the others, as the tokens that it has become.
struct CountedPiece {
  std::vector<TokenId> ids;
  std::int64_t count;
};

/// A pair that may be merged, and the pieces where it arose: a pair that arises again is another candidate.
struct MergeCandidate {
  std::int64_t count;  ///< when it was queued
  TokenPair pair;
  std::vector<std::uint32_t> pieces;
};

bool is_merged_later(const MergeCandidate& a, const MergeCandidate& b) {
  return a.count != b.count ? a.count < b.count : a.pair > b.pair;
}

class MergeLearning {
 public:
  MergeLearning(std::vector<CountedPiece> pieces, std::vector<std::string> texts)
      : pieces_(std::move(pieces)), texts_(std::move(texts)) {
    for (const std::string& text : texts_) ids_.emplace(text, ids_.size());
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
      const std::vector<TokenId>& ids = pieces_[i].ids;
      for (std::size_t at = 0; at + 1 < ids.size(); ++at) add({ids[at], ids[at + 1]}, i);
    }
    queue_arisen();
  }

  void learn(std::size_t vocabulary_size, std::uint64_t min_count) {
    while (texts_.size() < vocabulary_size && !queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), is_merged_later);
      MergeCandidate candidate = std::move(queue_.back());
      queue_.pop_back();
      const std::int64_t count = counts_[candidate.pair];
      if (candidate.count != count) {
        candidate.count = count;
        queue(std::move(candidate));
        continue;
      }
      if (static_cast<std::uint64_t>(count) < min_count) break;
      merge(candidate);
    }
  }

  /// As files have them: characters that stand for bytes.
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<TokenMerge>& merges() const { return merges_; }

 private:
  void add(TokenPair pair, std::uint32_t piece) {
    counts_[pair] += pieces_[piece].count;
    std::vector<std::uint32_t>& where = arisen_[pair];
    if (where.empty() || where.back() != piece) where.push_back(piece);
  }
  void remove(TokenPair pair, std::uint32_t piece) { counts_[pair] -= pieces_[piece].count; }

  void queue(MergeCandidate candidate) {
    if (candidate.count < 1) return;
    queue_.push_back(std::move(candidate));
    std::push_heap(queue_.begin(), queue_.end(), is_merged_later);
  }
  void queue_arisen() {
    for (auto& [pair, where] : arisen_) queue({counts_[pair], pair, std::move(where)});
    arisen_.clear();
  }

  void merge(const MergeCandidate& candidate) {
    std::string text = texts_[candidate.pair.first] + texts_[candidate.pair.second];
    const auto [found, is_new] = ids_.emplace(text, static_cast<TokenId>(texts_.size()));
    const TokenId result = found->second;
    if (is_new) texts_.push_back(std::move(text));
    merges_.push_back({candidate.pair.first, candidate.pair.second, result});
    for (const std::uint32_t piece : candidate.pieces) merge_in(piece, candidate.pair, result);
    queue_arisen();
  }

  /// From left to right, with what becomes of the pairs on both sides.
  void merge_in(std::uint32_t piece, TokenPair pair, TokenId result) {
    std::vector<TokenId>& ids = pieces_[piece].ids;
    std::size_t written = 0;
    for (std::size_t at = 0; at < ids.size();) {
      if (ids[at] != pair.first || at + 1 == ids.size() || ids[at + 1] != pair.second) {
        ids[written++] = ids[at++];
        continue;
      }
      if (written > 0) {
        remove({ids[written - 1], pair.first}, piece);
        add({ids[written - 1], result}, piece);
      }
      at += 2;
      if (at < ids.size()) {
        remove({pair.second, ids[at]}, piece);
        add({result, ids[at]}, piece);
      }
      ids[written++] = result;
    }
    ids.resize(written);
  }

  std::vector<CountedPiece> pieces_;
  std::vector<std::string> texts_;  ///< of tokens, by id
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<TokenPair, std::int64_t, TokenPairHash> counts_;
  std::unordered_map<TokenPair, std::vector<std::uint32_t>, TokenPairHash> arisen_;  ///< and not yet queued
  std::vector<MergeCandidate> queue_;
  std::vector<TokenMerge> merges_;
};

/// Each pair at the last place where it stands.
std::vector<TokenMerge> each_once(const std::vector<TokenMerge>& merges) {
  std::unordered_map<TokenPair, std::size_t, TokenPairHash> last;
  for (std::size_t i = 0; i < merges.size(); ++i) last[{merges[i].left, merges[i].right}] = i;
  std::vector<TokenMerge> once;
  for (std::size_t i = 0; i < merges.size(); ++i)
    if (last[{merges[i].left, merges[i].right}] == i) once.push_back(merges[i]);
  return once;
}

}  // namespace

TokenizerTrainer::TokenizerTrainer(TokenizerTraining training)
    : training_(std::move(training)), pattern_(std::vector<std::string>{training_.expression}) {
  check_training(training_);
}

void TokenizerTrainer::add(std::string_view text) {
  num_bytes_ += text.size();
  PatternMatcher(pattern_).for_each_piece(text, [this](std::string_view piece) {
    const auto found = counts_.find(piece);
    if (found != counts_.end())
      ++found->second;
    else
      counts_.emplace(piece, 1);
  });
}

TokenizerDefinition TokenizerTrainer::train() const {
  TokenizerDefinition definition;
  definition.expressions = {training_.expression};
  std::vector<std::string> texts = training_.special_tokens;
  for (const std::string& content : texts)
    definition.added_tokens.push_back({static_cast<TokenId>(definition.added_tokens.size()), content, true, false});
  std::array<TokenId, num_byte_tokens> byte_ids{};
  for (const char byte : bytes_by_character()) {
    const std::string text = byte_characters(std::string_view(&byte, 1));
    const auto found = std::find(texts.begin(), texts.end(), text);  // a special token may be a byte
    byte_ids[static_cast<unsigned char>(byte)] = static_cast<TokenId>(found - texts.begin());
    if (found == texts.end()) texts.push_back(text);
  }

  std::vector<CountedPiece> pieces;
  for (const auto& [piece, count] : counts_) {
    if (piece.size() < 2) continue;
    CountedPiece& counted = pieces.emplace_back();
    counted.count = static_cast<std::int64_t>(count);
    for (const char byte : piece) counted.ids.push_back(byte_ids[static_cast<unsigned char>(byte)]);
  }
  MergeLearning learning(std::move(pieces), std::move(texts));
  learning.learn(training_.vocabulary_size, training_.min_count);

  for (const std::string& text : learning.texts()) {
    const auto id = static_cast<TokenId>(definition.vocabulary.size());
    std::optional<std::string> bytes = bytes_of_characters(text);
    const bool is_found = bytes.has_value();
    definition.vocabulary.push_back({id, bytes ? *std::move(bytes) : text, is_found});
  }
  definition.merges = each_once(learning.merges());
  return definition;
}

}  // namespace trainer
