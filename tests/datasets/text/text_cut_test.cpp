#include "datasets/text/text_cut.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "datasets/text/text_pattern.h"
#include "datasets/text/tokenizer_training.h"

using namespace trainer;

namespace {

/// White space of all kinds, letters, numbers and signs of one to four bytes, and bytes that are no UTF-8.
const std::vector<std::string> fragments_to_cut = {" ",
                                                   " ",
                                                   " ",
                                                   "  ",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "\x0b",
                                                   "\xc2\xa0",
                                                   "\xc2\x85",
                                                   "\xe2\x80\x8a",
                                                   "\xe2\x80\xaf",
                                                   "\xe3\x80\x80",
                                                   "\xe1\x9a\x80",
                                                   "word",
                                                   "Words",
                                                   "'s",
                                                   "'LL",
                                                   "don't",
                                                   "12345",
                                                   "7",
                                                   "\xd1\x8f",
                                                   "\xd0\xb0",
                                                   "\xc3\xa9",
                                                   "\xe4\xb8\xad",
                                                   "\xe3\x80\x82",
                                                   "...",
                                                   "!?",
                                                   "_",
                                                   "\xf0\x9f\x98\x80",
                                                   "\xff",
                                                   "\xb5",
                                                   "\xe2\x82",
                                                   "<end>",
                                                   "<|end|>",
                                                   "one two"};

std::string text_to_cut(std::mt19937& random, int num_fragments) {
  std::string text;
  for (int i = 0; i < num_fragments; ++i) text += fragments_to_cut[random() % fragments_to_cut.size()];
  return text;
}

TokenizerDefinition learned_from_cut_texts(const std::string& expression) {
  std::mt19937 random(7);
  TokenizerTrainer trainer({.vocabulary_size = 600, .expression = expression, .special_tokens = {"<|end|>"}});
  for (int i = 0; i < 200; ++i) trainer.add(text_to_cut(random, 60));
  return trainer.train();
}

/// How many places of `text` are told; at each the tokens of the parts must be those of the whole.
int check_cuts(const Tokenizer& tokenizer, const std::string& text) {
  const TextCut cut(tokenizer);
  const std::vector<TokenId> whole = tokenizer.encode(text);
  int num_places = 0;
  std::size_t before = 0;
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const std::size_t at = cut.last(std::string_view(text).substr(0, size));
    REQUIRE(at <= size);
    REQUIRE(at >= before);
    if (at == before) continue;
    before = at;
    ++num_places;
    std::vector<TokenId> parts = tokenizer.encode(std::string_view(text).substr(0, at));
    const std::vector<TokenId> rest = tokenizer.encode(std::string_view(text).substr(at));
    parts.insert(parts.end(), rest.begin(), rest.end());
    INFO(text << "\ncut at " << at);
    REQUIRE(parts == whole);
  }
  return num_places;
}

}  // namespace

TEST_CASE("a text that is cut where it may be has the tokens of the whole") {
  std::mt19937 random(3);
  for (const std::string_view expression : {gpt2_expression, llama3_expression}) {
    for (const char* const first : {"", R"(\p{N})", R"(\p{N}+)", R"(\p{N}{1,3})"}) {
      TokenizerDefinition definition = learned_from_cut_texts(std::string(expression));
      if (*first != '\0') definition.expressions.insert(definition.expressions.begin(), first);
      const auto num_ids = static_cast<TokenId>(definition.vocabulary.size());
      definition.added_tokens.push_back({.id = num_ids, .content = "<end>"});
      definition.added_tokens.push_back({.id = num_ids + 1, .content = " word", .is_normalized = true});
      const Tokenizer tokenizer(definition);
      CHECK(TextCut(tokenizer).is_known());
      int num_places = 0;
      for (int i = 0; i < 100; ++i) num_places += check_cuts(tokenizer, text_to_cut(random, 60));
      CHECK(num_places > 300);
    }
  }
}

TEST_CASE("a text that is composed is cut at the same places, and Qwen's expression is known") {
  TokenizerDefinition definition = learned_from_cut_texts(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  definition.composes = true;
  const Tokenizer tokenizer(definition);
  CHECK(TextCut(tokenizer).is_known());
  std::mt19937 random(6);
  const std::vector<std::string> marks = {"\u0301", "\u0323", "\u0308", "\u1161", "\u11AB", "\u2000"};
  int num_places = 0;
  for (int i = 0; i < 100; ++i) {
    std::string text;
    for (int j = 0; j < 30; ++j) text += text_to_cut(random, 2) + marks[random() % marks.size()];
    num_places += check_cuts(tokenizer, text);
  }
  CHECK(num_places > 200);
  TokenizerDefinition bytes = Tokenizer::bytes().definition();
  bytes.composes = true;
  CHECK(check_cuts(Tokenizer(bytes), "one to\u0308o \u0301six") == 2);
}

TEST_CASE("bytes may be cut anywhere, but for added tokens") {
  std::mt19937 random(4);
  const std::string text = text_to_cut(random, 60);
  CHECK(check_cuts(Tokenizer::bytes(), text) == static_cast<int>(text.size()));
  TokenizerDefinition definition = Tokenizer::bytes().definition();
  definition.added_tokens.push_back({.id = 256, .content = "<end>"});
  const int num_places = check_cuts(Tokenizer(definition), text);
  CHECK(num_places > 3);
  CHECK(num_places < static_cast<int>(text.size()) / 2);
}

TEST_CASE("of other expressions, and of added tokens with blanks in them, no place is known") {
  const auto is_known = [](const TokenizerDefinition& definition) {
    const TextCut cut{Tokenizer(definition)};
    CHECK(cut.is_known() == (cut.last("one two") > 0));
    return cut.is_known();
  };
  const TokenizerDefinition learned = learned_from_cut_texts(std::string(gpt2_expression));
  CHECK(is_known(learned));
  TokenizerDefinition other = learned;
  for (const std::vector<std::string>& expressions :
       {std::vector<std::string>{}, {R"(\p{N})"}, {R"([^\n]+)"}, {std::string(gpt2_expression), R"([^\n]+)"}}) {
    other.expressions = expressions;
    CHECK_FALSE(is_known(other));
  }
  other = learned;
  other.added_tokens.push_back({.id = static_cast<TokenId>(learned.vocabulary.size()), .content = "one two"});
  CHECK_FALSE(is_known(other));
  other.added_tokens.back().is_special = true;
  CHECK(is_known(other));
}
