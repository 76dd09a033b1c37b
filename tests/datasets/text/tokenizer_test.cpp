#include "datasets/text/tokenizer.h"

#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "datasets/text/byte_alphabet.h"
#include "datasets/text/text_encoder.h"
#include "datasets/text/tokenizer_file.h"
#include "engine/errors.h"
#include "tests/datasets/data_files.h"
#include "tests/datasets/heap_calls.h"
#include "tests/datasets/text/small_tokenizers.h"
#include "tests/refusal.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

using Ids = std::vector<TokenId>;

Tokenizer tokenizer_of(const nlohmann::json& json) {
  const DataFolder folder;
  return load_tokenizer(folder.write("tokenizer.json", json.dump()));
}

/// Each id's bytes with bars between them.
std::string shown(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : "|") + std::string(tokenizer.token_bytes(id));
  return text;
}

std::string shown_encoding(const Tokenizer& tokenizer, std::string_view text,
                           SpecialTokens special = SpecialTokens::as_text) {
  return shown(tokenizer, tokenizer.encode(text, special));
}

const TokenPairs hello_merges = {{"l", "l"}, {"h", "e"}, {"ll", "o"}, {"he", "llo"}, {" ", "he"}, {" he", "llo"}};

/// Byte-pair encoding of one piece as it is defined: all pairs are looked at before each merge.
Ids merged_by_definition(const TokenizerDefinition& definition, Ids ids) {
  while (true) {
    std::size_t best = ids.size(), best_rank = definition.merges.size();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        const TokenMerge& merge = definition.merges[rank];
        if (merge.left != ids[i] || merge.right != ids[i + 1]) continue;
        best = i;
        best_rank = rank;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = definition.merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

/// Merges over few letters, each of two tokens that are there already, so that many overlap.
nlohmann::json random_tokenizer(std::mt19937& generator, std::size_t count) {
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  TokenPairs merges;
  while (merges.size() < count) {
    const std::string left = tokens[generator() % tokens.size()], right = tokens[generator() % tokens.size()];
    if (left.size() + right.size() > 12) continue;
    if (std::find(merges.begin(), merges.end(), std::pair(left, right)) != merges.end()) continue;
    merges.emplace_back(left, right);
    if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) tokens.push_back(left + right);
  }
  return tokenizer_json(merges);
}

std::string random_letters(std::mt19937& generator, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text.push_back(static_cast<char>('a' + generator() % 4));
  return text;
}

std::string random_bytes(std::mt19937& generator, std::size_t count) {
  constexpr std::string_view often = " \n'abll09\xC3\xA4\xE4\xBD\xA0\xF0\x9F\x98\x80";
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text.push_back(generator() % 8 == 0 ? static_cast<char>(generator()) : often[generator() % often.size()]);
  return text;
}

}  // namespace

TEST_CASE("Bytes are tokens with their values as ids") {
  const Tokenizer tokenizer = Tokenizer::bytes();
  CHECK(tokenizer.num_ids() == 256);
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  Ids expected(256);
  std::iota(expected.begin(), expected.end(), 0U);
  CHECK(tokenizer.encode(all) == expected);
  CHECK(tokenizer.decode(expected) == all);
  CHECK(tokenizer.encode("").empty());
  const std::string long_text(200'000, 'x');
  CHECK(tokenizer.encode(long_text) == Ids(200'000, 'x'));
}

TEST_CASE("Merges are made by rank, the earliest first") {
  const Tokenizer tokenizer = tokenizer_of(tokenizer_json(hello_merges));
  CHECK(shown_encoding(tokenizer, "hello hello hell") == "hello| |hello| he|ll");
  CHECK(shown_encoding(tokenizer, "xhello") == "x|hello");
  CHECK(tokenizer.num_ids() == 262);
  // Of several of one rank the leftmost goes first.
  CHECK(shown_encoding(tokenizer_of(tokenizer_json({{"a", "a"}})), "aaaaa") == "aa|aa|a");
}

TEST_CASE("A piece becomes what the definition of byte-pair encoding says, short or long, remembered or not") {
  std::mt19937 generator(7);
  for (int round = 0; round < 20; ++round) {
    const Tokenizer tokenizer = tokenizer_of(random_tokenizer(generator, 1 + generator() % 60));
    TextEncoder encoder(tokenizer);
    for (const std::size_t length : {1, 2, 3, 5, 9, 17, 22, 23, 47, 48, 49, 50, 200, 500}) {
      const std::string text = random_letters(generator, length);
      Ids bytes;
      for (const char byte : text) bytes.push_back(tokenizer.encode(std::string(1, byte)).front());
      const Ids expected = merged_by_definition(tokenizer.definition(), bytes);
      CHECK(tokenizer.encode(text) == expected);
      for (int time = 0; time < 2; ++time) {
        Ids ids;
        encoder.encode(text, SpecialTokens::as_text, ids);
        CHECK(ids == expected);
      }
    }
  }
}

TEST_CASE("Decoding what was encoded gives all bytes back, be they UTF-8 or not") {
  std::mt19937 generator(11);
  nlohmann::json json = tokenizer_json({{"l", "l"}, {"\xC3", "\xA4"}, {"\xBD", "\xA0"}, {" ", "a"}, {"\n", "\n"}});
  const auto round_trip = [&](const Tokenizer& tokenizer) {
    TextEncoder encoder(tokenizer);
    for (int round = 0; round < 300; ++round) {
      const std::string text = random_bytes(generator, generator() % 60);
      Ids ids;
      encoder.encode(text, SpecialTokens::as_tokens, ids);
      CHECK(tokenizer.decode(ids) == text);
      CHECK(tokenizer.encode(text, SpecialTokens::as_tokens) == ids);
    }
  };
  round_trip(tokenizer_of(json));
  json["pre_tokenizer"] = split_and_byte_level(std::string(llama3_expression));
  json["added_tokens"] = nlohmann::json::array({added_token(261, "a\n"), added_token(262, "0", false)});
  round_trip(tokenizer_of(json));
  round_trip(Tokenizer::bytes());
}

TEST_CASE("A piece of a megabyte is merged in time that goes with its length") {
  const Tokenizer tokenizer = tokenizer_of(tokenizer_json({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"b", "a"}}));
  const std::string letters(std::size_t{1} << 20U, 'a');
  const Ids ids = tokenizer.encode(letters + 'b' + letters);
  CHECK(tokenizer.decode(ids) == letters + 'b' + letters);
  CHECK(ids.size() == (std::size_t{1} << 18U) + 1);
}

TEST_CASE("Special tokens are text unless they are asked for") {
  nlohmann::json json = tokenizer_json(hello_merges);
  json["added_tokens"] = nlohmann::json::array(
      {added_token(262, "<|end|>"), added_token(263, "<|end|><|end|>"), added_token(300, "<pad>")});
  const Tokenizer tokenizer = tokenizer_of(json);
  CHECK(tokenizer.num_ids() == 301);
  CHECK(tokenizer.special_token("<|end|>") == TokenId{262});
  CHECK_FALSE(tokenizer.special_token("hello").has_value());
  CHECK(shown_encoding(tokenizer, "hello<|end|>") == "hello|<|||e|n|d|||>");
  CHECK(shown_encoding(tokenizer, "hello<|end|>hello<pad", SpecialTokens::as_tokens) == "hello|<|end|>|hello|<|p|a|d");
  // The longest of those that begin there.
  CHECK(tokenizer.encode("<|end|><|end|><|end|>", SpecialTokens::as_tokens) == Ids{263, 262});
  CHECK(tokenizer.encode("<pad><pad>", SpecialTokens::as_tokens) == Ids{300, 300});
  CHECK(tokenizer.decode(Ids{263, 300}) == "<|end|><|end|><pad>");
  CHECK_THAT(refusal_of<DataError>([&] { (void)tokenizer.decode(Ids{299}); }), Contains("299 is no token"));
  CHECK_THAT(refusal_of<DataError>([&] { (void)tokenizer.decode(Ids{4'000'000'000U}); }), Contains("is no token"));
}

TEST_CASE("Added tokens that are not special are always found, those without normalization first") {
  nlohmann::json json = tokenizer_json();
  json["added_tokens"] = nlohmann::json::array(
      {added_token(256, "  ", false), added_token(257, "ab", false), added_token(258, "b", true)});
  json["added_tokens"][1]["normalized"] = true;
  const Tokenizer tokenizer = tokenizer_of(json);
  CHECK(shown_encoding(tokenizer, "ab   b") == "ab|  | |b");
  CHECK(tokenizer.encode("ab", SpecialTokens::as_tokens).back() == 258);
}

TEST_CASE("Added tokens without normalization are found in a text as it is, the others in one that is composed") {
  nlohmann::json json = tokenizer_json();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"] =
      nlohmann::json::array({added_token(256, "o\u0301", false), added_token(257, "e\u0301", false)});
  json["added_tokens"][1]["normalized"] = true;
  const Tokenizer tokenizer = tokenizer_of(json);
  CHECK(tokenizer.encode("o\u0301e\u0301\u00E9") == Ids{256, 257, 257});
  CHECK(tokenizer.encode("\u00F3").size() == 2);
  CHECK(tokenizer.decode(tokenizer.encode("a\u0301o\u0301")) == "\u00E1o\u0301");
}

TEST_CASE("Blanks at the end of what is in front of an added token stay together") {
  nlohmann::json json = tokenizer_json({{" ", " "}});
  json["added_tokens"] = nlohmann::json::array({added_token(257, "<x>")});
  const Tokenizer tokenizer = tokenizer_of(json);
  CHECK(shown_encoding(tokenizer, "a  <x>", SpecialTokens::as_tokens) == "a|  |<x>");
  CHECK(shown_encoding(tokenizer, "a  x") == "a| | |x");
}

TEST_CASE("With ignore_merges a piece that is a token is that token, though no merge leads there") {
  nlohmann::json json = tokenizer_json();
  json["model"]["vocab"]["hello"] = 256;
  CHECK(shown_encoding(tokenizer_of(json), "hello") == "h|e|l|l|o");
  json["model"]["ignore_merges"] = true;
  CHECK(shown_encoding(tokenizer_of(json), "hello hello") == "hello| |h|e|l|l|o");
}

TEST_CASE("One tokenizer serves any number of threads") {
  std::mt19937 generator(3);
  const Tokenizer tokenizer = tokenizer_of(random_tokenizer(generator, 40));
  const std::string text = random_letters(generator, 3'000) + " " + random_letters(generator, 30);
  const Ids expected = tokenizer.encode(text);
  std::array<bool, 4> is_equal{};
  std::vector<std::thread> threads;
  for (bool& equal : is_equal) {
    threads.emplace_back([&] {
      TextEncoder encoder(tokenizer);
      equal = true;
      for (int round = 0; round < 20; ++round) {
        Ids ids;
        encoder.encode(text, SpecialTokens::as_text, ids);
        equal = equal && ids == expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(is_equal == std::array{true, true, true, true});
}

#ifdef TRAINER_COUNT_HEAP_CALLS
TEST_CASE("A text like one that was encoded before is encoded without an allocation") {
  nlohmann::json json = tokenizer_json(hello_merges);
  json["added_tokens"] = nlohmann::json::array({added_token(262, "<|end|>")});
  const Tokenizer tokenizer = tokenizer_of(json);
  std::mt19937 generator(2);
  std::string text = random_letters(generator, 500) + "<|end|>hello\xFF ";
  for (int i = 0; i < 2'000; ++i) text += random_letters(generator, 1 + generator() % 60) + "  hello";
  TextEncoder encoder(tokenizer);
  std::size_t count = 0;
  const TextEncoder::TakeTokens take = [&count](std::span<const TokenId> ids) { count += ids.size(); };
  encoder.encode(text, SpecialTokens::as_tokens, take);
  CHECK(heap_calls_of([&] { encoder.encode(text, SpecialTokens::as_tokens, take); }) == 0);
  CHECK(count > 0);
}
#endif

TEST_CASE("A long text is handed over in parts") {
  const Tokenizer tokenizer = tokenizer_of(tokenizer_json(hello_merges));
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "hello hi\n";
  std::size_t parts = 0;
  Ids ids;
  TextEncoder encoder(tokenizer);
  encoder.encode(text, SpecialTokens::as_text, [&](std::span<const TokenId> more) {
    ++parts;
    ids.insert(ids.end(), more.begin(), more.end());
  });
  CHECK(parts > 2);
  CHECK(tokenizer.decode(ids) == text);
}

TEST_CASE("Bytes as characters are GPT-2's") {
  CHECK(byte_characters(" a\n\xAD\xFF") == "ĠaĊŃÿ");
  CHECK(bytes_of_characters("ĠaĊŃÿ") == std::string(" a\n\xAD\xFF"));
  CHECK_FALSE(bytes_of_characters("a b").has_value());
  CHECK_FALSE(bytes_of_characters("ń").has_value());
  CHECK_FALSE(bytes_of_characters("▁a").has_value());
  CHECK_FALSE(bytes_of_characters("\xC4").has_value());
  CHECK(bytes_by_character().substr(0, 3) == "!\"#");
  CHECK(bytes_by_character().substr(188, 2) == std::string("\0\1", 2));
}
