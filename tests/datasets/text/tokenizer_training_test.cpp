#include "datasets/text/tokenizer_training.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "datasets/text/byte_alphabet.h"
#include "datasets/text/tokenizer_file.h"
#include "datasets/text/tokenizer_json.h"
#include "engine/errors.h"
#include "tests/datasets/data_files.h"
#include "tests/refusal.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

TokenizerDefinition learned(const std::vector<std::string>& texts, std::uint32_t size, std::uint64_t min_count = 0) {
  TokenizerTraining training;
  training.vocabulary_size = size;
  training.min_count = min_count;
  TokenizerTrainer trainer(training);
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train();
}

/// "a+b" for each merge.
std::vector<std::string> merge_texts(const TokenizerDefinition& definition) {
  std::vector<std::string> texts;
  for (const TokenMerge& merge : definition.merges)
    texts.push_back(byte_characters(definition.vocabulary.at(merge.left).bytes) + "+" +
                    byte_characters(definition.vocabulary.at(merge.right).bytes));
  return texts;
}

/// The most frequent pair, of several that of the smallest ids, counted anew before each merge.
std::vector<TokenMerge> merges_by_definition(const std::vector<std::string>& pieces, std::size_t most) {
  std::vector<std::vector<TokenId>> words;
  const std::string bytes = bytes_by_character();
  std::vector<std::string> texts;
  for (const char byte : bytes) texts.emplace_back(1, byte);
  for (const std::string& piece : pieces) {
    std::vector<TokenId>& word = words.emplace_back();
    for (const char byte : piece) word.push_back(static_cast<TokenId>(bytes.find(byte)));
  }
  std::vector<TokenMerge> merges;
  while (merges.size() < most) {
    std::map<std::pair<TokenId, TokenId>, int> counts;
    for (const auto& word : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    int highest = 0;
    std::pair<TokenId, TokenId> best;
    for (const auto& [pair, count] : counts) {
      if (count <= highest) continue;
      highest = count;
      best = pair;
    }
    if (highest == 0) break;
    merges.push_back({best.first, best.second, static_cast<TokenId>(texts.size())});
    texts.push_back(texts[best.first] + texts[best.second]);
    for (auto& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != best.first || word[i + 1] != best.second) continue;
        word[i] = merges.back().result;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

std::string training_refusal(const TokenizerTraining& training) {
  return refusal_of<ConfigError>([&] { TokenizerTrainer trainer(training); });
}

}  // namespace

TEST_CASE("The most frequent pair is merged, of several that of the smallest ids") {
  std::mt19937 generator(5);
  for (int round = 0; round < 10; ++round) {
    // Pieces of 3 letters; without a letter twice in a row a pair never overlaps itself.
    std::vector<std::string> pieces;
    std::string text;
    for (int i = 0; i < 200; ++i) {
      std::string piece = i == 0 ? "" : " ";
      for (std::size_t n = 1 + generator() % 9; n > 0; --n) {
        char letter = ' ';
        do letter = static_cast<char>('a' + generator() % 3);
        while (!piece.empty() && piece.back() == letter);
        piece.push_back(letter);
      }
      text += piece;
      pieces.push_back(std::move(piece));
    }
    const TokenizerDefinition definition = learned({text}, 256 + 60);
    CHECK(definition.merges == merges_by_definition(pieces, 60));
  }
}

TEST_CASE("Merges are those of BpeTrainer, also where a pair overlaps itself") {
  // What tokenizers 0.23.3 learns from the same text.
  const std::vector<std::string> expected = {"Ġ+b",    "Ġ+a",   "a+b",    "c+b",  "a+a",   "Ġ+Ġ",    "Ġ+c",   "Ġb+b",
                                             "ab+b",   "a+c",   "Ġa+b",   "Ġ+cb", "Ġb+c",  "Ġa+c",   "Ġa+a",  "a+ab",
                                             "b+a",    "aa+a",  "ĠĠ+Ġ",   "Ġb+a", "Ġa+ac", "cb+a",   "Ġab+b", "Ġcb+b",
                                             "Ġb+abb", "Ġa+ab", "Ġa+cb",  "Ġc+c", "Ġc+cb", "a+cb",   "c+c",   "c+aab",
                                             "Ġb+ab",  "Ġb+aa", "Ġb+aaa", "ab+c", "ab+aa", "ĠĠ+ĠĠĠ", "Ġc+aa"};
  std::string text;
  std::uint64_t state = 1;
  for (int i = 0; i < 600; ++i) {
    state = (state * 1103515245 + 12345) % (std::uint64_t{1} << 31U);
    const std::uint64_t drawn = state >> 16U;
    text.push_back(drawn % 7 == 0 ? 'c' : "ab "[drawn % 3]);
  }
  CHECK(merge_texts(learned({text}, 256 + static_cast<std::uint32_t>(expected.size()))) == expected);
}

TEST_CASE("A text's end ends a piece, and no text is needed") {
  CHECK(merge_texts(learned({"a", "b"}, 300)).empty());
  CHECK(merge_texts(learned({"ab"}, 300)) == std::vector<std::string>{"a+b"});
  CHECK(learned({}, 256).vocabulary.size() == 256);
}

TEST_CASE("Bytes that are no UTF-8 are counted as pieces of their own") {
  CHECK(merge_texts(learned({"\xFF\xFF\xFF ab \xFF\xFF"}, 300)) == std::vector<std::string>{"a+b", "Ġ+ab"});
}

TEST_CASE("Learning stops where the vocabulary is full, no pair is left or all are rarer than min_count") {
  CHECK(learned({"ab ab ab cd"}, 258).vocabulary.size() == 258);
  CHECK(learned({"ab ab ab cd"}, 5000).vocabulary.size() == 260);
  CHECK(merge_texts(learned({"ab ab ab cd"}, 5000, 2)) == std::vector<std::string>{"a+b", "Ġ+ab"});
  CHECK(merge_texts(learned({"ab ab ab cd"}, 5000, 4)).empty());
}

TEST_CASE("Special tokens come first, then the bytes by the characters that stand for them") {
  TokenizerTraining training;
  training.vocabulary_size = 260;
  training.special_tokens = {"<|end|>", "é▁"};
  TokenizerTrainer trainer(training);
  trainer.add("abab<|end|>");
  const TokenizerDefinition definition = trainer.train();
  REQUIRE(definition.vocabulary.size() == 260);
  CHECK(definition.vocabulary[0].bytes == "<|end|>");
  CHECK(definition.vocabulary[1].bytes == "é▁");
  CHECK_FALSE(definition.vocabulary[1].is_found);
  CHECK(definition.vocabulary[2].bytes == "!");
  CHECK(definition.vocabulary[257].bytes == "\xAD");
  CHECK(definition.vocabulary[258].bytes == "ab");
  CHECK(definition.added_tokens[1] == AddedToken{1, "é▁", true, false});
}

TEST_CASE("What was learned is written as a file that is read again") {
  for (const std::string_view expression : {gpt2_expression, llama3_expression}) {
    TokenizerTraining training;
    training.vocabulary_size = 290;
    training.expression = std::string(expression);
    training.special_tokens = {"<|end|>"};
    TokenizerTrainer trainer(training);
    trainer.add("1234 1234 12345\n\nhello, hello\n\n \"quoted\\\" \xC3\xA4\xC3\xA4\x01\x7F\xFF");
    const TokenizerDefinition definition = trainer.train();
    const DataFolder folder;
    const Tokenizer tokenizer = load_tokenizer(folder.write("tokenizer.json", json_of_tokenizer(definition)));
    CHECK(tokenizer.definition().expressions == definition.expressions);
    CHECK(tokenizer.definition().merges == definition.merges);
    CHECK(tokenizer.definition().added_tokens == definition.added_tokens);
    CHECK(tokenizer.num_ids() == definition.vocabulary.size());
    for (const VocabularyEntry& entry : definition.vocabulary) CHECK(tokenizer.token_bytes(entry.id) == entry.bytes);
    CHECK(json_of_tokenizer(tokenizer.definition()) == json_of_tokenizer(definition));
    const std::string text = "hello 12345<|end|>\xFF";
    CHECK(tokenizer.decode(tokenizer.encode(text, SpecialTokens::as_tokens)) == text);
  }
}

TEST_CASE("What cannot be learned is refused") {
  TokenizerTraining training;
  training.vocabulary_size = 255;
  CHECK_THAT(training_refusal(training), Contains("a vocabulary of 255 tokens: from 256 (256 bytes) to 1048576"));
  training.vocabulary_size = 257;
  training.special_tokens = {"<a>", "<b>"};
  CHECK_THAT(training_refusal(training), Contains("from 258 (256 bytes and 2 special)"));
  training.vocabulary_size = 1'048'577;
  CHECK_THAT(training_refusal(training), Contains("a vocabulary of 1048577 tokens"));
  training.vocabulary_size = 300;
  for (const auto& [token, what] :
       std::vector<std::pair<std::string, std::string>>{{"", "is empty"},
                                                        {std::string(513, 'x'), "longer than 512 bytes"},
                                                        {"\xFF", "is not UTF-8"},
                                                        {"Ġthe", "other bytes"}}) {
    training.special_tokens = {token};
    CHECK_THAT(training_refusal(training), Contains(what));
  }
  training.special_tokens = {"<a>", "<b>", "<a>"};
  CHECK_THAT(training_refusal(training), Contains("'<a>' is there twice"));
  training.special_tokens.clear();
  training.expression = "a(";
  CHECK_THAT(refusal_of<DataError>([&] { TokenizerTrainer trainer(training); }), Contains("at byte 2"));
}
