#include "datasets/text/tokenizer_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/text/byte_alphabet.h"
#include "datasets/text/tokenizer_json.h"
#include "engine/errors.h"
#include "tests/datasets/data_files.h"
#include "tests/datasets/text/small_tokenizers.h"
#include "tests/refusal.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

const TokenPairs ab_merges = {{"a", "b"}, {"ab", "c"}};

std::string load_refusal(const std::string& text) {
  const DataFolder folder;
  const std::string path = folder.write("tokenizer.json", text);
  std::string message = refusal_of<DataError>([&] { load_tokenizer(path); });
  if (message != "it was taken") CHECK_THAT(message, Contains(path));
  return message;
}

/// What `whole` with a patch (RFC 7386) is refused with.
std::string patch_refusal(const nlohmann::json& patch) {
  nlohmann::json json = tokenizer_json(ab_merges);
  json.merge_patch(patch);
  return load_refusal(json.dump());
}

std::vector<TokenId> ids_by(const nlohmann::json& json, const std::string& text) {
  const DataFolder folder;
  return load_tokenizer(folder.write("tokenizer.json", json.dump())).encode(text);
}

}  // namespace

TEST_CASE("A tokenizer.json is read, with merges as pairs or as lines") {
  nlohmann::json json = tokenizer_json(ab_merges);
  CHECK(ids_by(json, "abcab") == std::vector<TokenId>{257, 256});
  json["model"]["merges"] = {"a b", "ab c"};
  CHECK(ids_by(json, "abcab") == std::vector<TokenId>{257, 256});
  json["model"].erase("type");
  json["model"]["unk_token"] = "<unk>";
  json["model"]["dropout"] = nullptr;
  json["model"]["end_of_word_suffix"] = "";
  json["post_processor"] = {{"type", "ByteLevel"}};
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", nlohmann::json::array()}};
  CHECK(ids_by(json, "abcab") == std::vector<TokenId>{257, 256});
}

TEST_CASE("Of a tokenizer with NFC, alone or in a list, texts are composed, and its file says so again") {
  nlohmann::json json = tokenizer_json();
  const std::vector<TokenId> apart = ids_by(json, "e\u0301"), composed = ids_by(json, "\u00E9");
  CHECK(apart != composed);
  const nlohmann::json nfc = {{"type", "NFC"}};
  for (const nlohmann::json& normalizer : {nfc, nlohmann::json{{"type", "Sequence"}, {"normalizers", {nfc}}}}) {
    json["normalizer"] = normalizer;
    CHECK(ids_by(json, "e\u0301") == composed);
    CHECK(ids_by(json, "\u00E9") == composed);
  }
  TokenizerDefinition definition = Tokenizer::bytes().definition();
  CHECK(nlohmann::json::parse(json_of_tokenizer(definition))["normalizer"].is_null());
  definition.composes = true;
  CHECK(nlohmann::json::parse(json_of_tokenizer(definition))["normalizer"] == nfc);
}

TEST_CASE("Of a merge that stands there twice the later one counts") {
  nlohmann::json json = tokenizer_json({{"a", "b"}, {"b", "c"}});
  CHECK(ids_by(json, "abc").front() == 256);
  json["model"]["merges"] = {"a b", "b c", "a b"};
  CHECK(ids_by(json, "abc").back() == 257);
}

TEST_CASE("Texts are cut by the expressions of the pre-tokenizer, in its order") {
  nlohmann::json json = tokenizer_json({{"1", "2"}, {"12", "3"}, {"123", "4"}, {" ", "1"}});
  CHECK(ids_by(json, "1234") == std::vector<TokenId>{258});
  json["pre_tokenizer"] = split_and_byte_level(std::string(llama3_expression));
  CHECK(ids_by(json, "1234").front() == 257);
  json["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Digits"}, {"individual_digits", true}};
  CHECK(ids_by(json, "1234").size() == 4);
  json["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
  CHECK(ids_by(json, " 1234") == std::vector<TokenId>{static_cast<TokenId>(json["model"]["vocab"]["Ġ"]), 258});
  json["pre_tokenizer"]["pretokenizers"][0] = {
      {"type", "Split"}, {"pattern", {{"String", "2"}}}, {"behavior", "Isolated"}, {"invert", false}};
  CHECK(ids_by(json, "1234").size() == 4);
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["String"] = ".";
  CHECK(ids_by(json, "1234").size() == 1);
  json["pre_tokenizer"] = split_and_byte_level(std::string(llama3_expression));
  json["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
  json["pre_tokenizer"]["pretokenizers"][0]["invert"] = true;
  CHECK(ids_by(json, "1234").front() == 257);
}

TEST_CASE("vocab.json with merges.txt beside it is GPT-2's tokenizer, from the file or the folder") {
  const DataFolder folder;
  nlohmann::json vocabulary = tokenizer_json({{"a", "b"}, {" ", "a"}})["model"]["vocab"];
  vocabulary["<|endoftext|>"] = 258;
  vocabulary["model"] = 259;
  vocabulary["version"] = 260;
  const std::string path = folder.write("vocab.json", vocabulary.dump());
  CHECK_THAT(refusal_of<DataError>([&] { load_tokenizer(path); }), Contains("merges.txt' beside it"));
  folder.write("merges.txt", "#version: 0.2\na b\r\nĠ a\n");
  for (const std::string& from : {path, folder.path()}) {
    const Tokenizer tokenizer = load_tokenizer(from);
    CHECK(tokenizer.encode("ab a") == std::vector<TokenId>{256, 257});
    CHECK(tokenizer.encode("<|endoftext|>", SpecialTokens::as_tokens) == std::vector<TokenId>{258});
    CHECK(tokenizer.encode("<|endoftext|>").size() == 13);
  }
  const auto merges_refusal = [&](const std::string& text) {
    folder.write("merges.txt", text);
    return refusal_of<DataError>([&] { load_tokenizer(path); });
  };
  CHECK_THAT(merges_refusal("a b\na\n"), Contains("merges.txt:2: expected two tokens with a space between them"));
  CHECK_THAT(merges_refusal("a b c"), Contains("merges.txt:1: expected two tokens"));
  CHECK_THAT(merges_refusal("\na c"), Contains("merges.txt:2: 'ac' is no token of the vocabulary"));
  CHECK_THAT(merges_refusal("a \xFF"), Contains("merges.txt:1: '?' is no token of the vocabulary"));
  folder.write("tokenizer.json", tokenizer_json().dump());
  CHECK(load_tokenizer(folder.path()).num_ids() == 256);
}

TEST_CASE("What is not byte-level BPE, or would not give texts back, is refused with its place") {
  const std::vector<std::pair<nlohmann::json, std::string>> refusals = {
      {{{"model", {{"type", "WordPiece"}}}}, "'model.type' is WordPiece; only BPE is supported, on bytes"},
      {{{"model", {{"type", "Unigram"}}}}, "'model.type' is Unigram"},
      {{{"model", {{"dropout", 0.1}}}}, "'model.dropout' is not supported"},
      {{{"model", {{"byte_fallback", true}}}}, "'model.byte_fallback' is not supported"},
      {{{"model", {{"continuing_subword_prefix", "##"}}}}, "'model.continuing_subword_prefix' is not supported"},
      {{{"model", {{"end_of_word_suffix", "</w>"}}}}, "'model.end_of_word_suffix' is not supported"},
      {{{"normalizer", {{"type", "NFKC"}}}}, "'normalizer' is NFKC; only NFC is supported"},
      {{{"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}}}},
       "'normalizer' is Lowercase; only NFC is supported"},
      {{{"pre_tokenizer", {{"type", "Metaspace"}}}}, "'pre_tokenizer' is Metaspace; only ByteLevel, Split and Digits"},
      {{{"pre_tokenizer", {{"add_prefix_space", true}}}}, "'pre_tokenizer.add_prefix_space' must be false"},
      {{{"pre_tokenizer", {{"add_prefix_space", nullptr}}}}, "'pre_tokenizer.add_prefix_space' must be false"},
      {{{"pre_tokenizer", nullptr}}, "'pre_tokenizer' is missing"},
      {{{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Digits"}}}}}}},
       "'pre_tokenizer' ends without ByteLevel"},
      {{{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Removed"}}}},
       "'pre_tokenizer.behavior' is Removed; only Isolated is supported"},
      {{{"added_tokens", {{{"id", 300}, {"content", "<mask>"}, {"lstrip", true}}}}},
       "'added_tokens.0.lstrip' is not supported"},
      {{{"model", {{"vocab", {{"!", nullptr}}}}}}, "the vocabulary lacks the byte 0x21"},
  };
  for (const auto& [patch, expected] : refusals) CHECK_THAT(patch_refusal(patch), Contains(expected));
  nlohmann::json swapped = tokenizer_json();
  swapped["pre_tokenizer"] = split_and_byte_level("a");
  std::swap(swapped["pre_tokenizer"]["pretokenizers"][0], swapped["pre_tokenizer"]["pretokenizers"][1]);
  CHECK_THAT(load_refusal(swapped.dump()), Contains("'pre_tokenizer.pretokenizers.1' stands behind ByteLevel"));
}

TEST_CASE("Values of other types, ids out of range and tokens that are not there are refused with their place") {
  const std::vector<std::pair<nlohmann::json, std::string>> refusals = {
      {{{"model", nullptr}}, "it has no 'model', and as a vocabulary it lacks"},
      {{{"model", "BPE"}}, "'model' is \"BPE\", where an object belongs"},
      {{{"model", {{"type", 3}}}}, "'model.type' is 3, where text belongs"},
      {{{"model", {{"vocab", 3}}}}, "'model.vocab' is 3, where an object belongs"},
      {{{"model", {{"vocab", {{"a", -1}}}}}}, "'model.vocab' gives 'a' -1, where an id from 0 to 1048575 belongs"},
      {{{"model", {{"vocab", {{"a", 1.5}}}}}}, "gives 'a' 1.5, where an id"},
      {{{"model", {{"vocab", {{"a", 1048576}}}}}}, "gives 'a' 1048576, where an id"},
      {{{"model", {{"vocab", {{"a", 1}}}}}}, "the id 1"},
      {{{"model", {{"vocab", {{"", 700}}}}}}, "'model.vocab' holds an empty token"},
      {{{"model", {{"merges", nullptr}}}}, "'model.merges' is missing"},
      {{{"model", {{"merges", "a b"}}}}, "'model.merges' is \"a b\", where a list belongs"},
      {{{"model", {{"merges", {"a b", 3}}}}}, "'model.merges.1' is not two tokens"},
      {{{"model", {{"merges", {"a b c"}}}}}, "'model.merges.0' is not two tokens"},
      {{{"model", {{"merges", {{"a", "b", "c"}}}}}}, "'model.merges.0' is not two tokens"},
      {{{"model", {{"merges", {"a b", "x y"}}}}}, "'model.merges.1': 'xy' is no token of the vocabulary"},
      {{{"model", {{"merges", {"▁a b"}}}}}, "'model.merges.0': '▁a' is no token of the vocabulary"},
      {{{"model", {{"ignore_merges", "yes"}}}}, "'model.ignore_merges' is \"yes\", where true or false belongs"},
      {{{"added_tokens", 7}}, "'added_tokens' is 7, where a list belongs"},
      {{{"added_tokens", {7}}}, "'added_tokens.0' is 7, where an object belongs"},
      {{{"added_tokens", {{{"id", 300}}}}}, "'added_tokens.0.content' is missing"},
      {{{"added_tokens", {{{"id", -3}, {"content", "x"}}}}}, "'added_tokens.0.id' is -3, where an integer from 0"},
      {{{"added_tokens", {{{"id", 300}, {"content", ""}}}}}, "'added_tokens.0': '' is empty"},
      {{{"added_tokens", {{{"id", 300}, {"content", std::string(513, 'x')}}}}}, "is longer than 512 bytes"},
      {{{"added_tokens", {{{"id", 256}, {"content", "<x>"}}}}}, "'added_tokens.0': '<x>' has the id 256 of 'ab'"},
      {{{"added_tokens", {{{"id", 300}, {"content", "x1"}}, {{"id", 301}, {"content", "x1"}}}}},
       "'added_tokens.1': 'x1' stands there twice"},
      {{{"pre_tokenizer", {{"use_regex", "no"}}}}, "'pre_tokenizer.use_regex' is \"no\", where true or false belongs"},
      {{{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", 3}}}}, "where a list belongs"},
      {{{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}}},
       "'pre_tokenizer' ends without ByteLevel"},
  };
  for (const auto& [patch, expected] : refusals) CHECK_THAT(patch_refusal(patch), Contains(expected));
  nlohmann::json wrong_expression = tokenizer_json();
  wrong_expression["pre_tokenizer"] = split_and_byte_level("a(");
  CHECK_THAT(load_refusal(wrong_expression.dump()), Contains("the regular expression a(, at byte 2"));
  wrong_expression["pre_tokenizer"]["pretokenizers"] = nlohmann::json::array();
  for (int i = 0; i < 20; ++i) wrong_expression["pre_tokenizer"]["pretokenizers"].push_back({{"type", "Digits"}});
  CHECK_THAT(load_refusal(wrong_expression.dump()), Contains("'pre_tokenizer' has 20 steps, at most 16 are read"));
}

TEST_CASE("Tokens that no byte stands for are kept for decoding alone") {
  nlohmann::json json = tokenizer_json();
  json["model"]["vocab"]["<｜end▁of｜>"] = 256;
  json["added_tokens"] = nlohmann::json::array({added_token(256, "<｜end▁of｜>")});
  const DataFolder folder;
  const Tokenizer tokenizer = load_tokenizer(folder.write("tokenizer.json", json.dump()));
  CHECK(tokenizer.decode(std::vector<TokenId>{256}) == "<｜end▁of｜>");
  CHECK(tokenizer.encode("<｜end▁of｜>", SpecialTokens::as_tokens) == std::vector<TokenId>{256});
  CHECK(tokenizer.encode("<｜end▁of｜>").size() == 16);
}

TEST_CASE("An added token is its content, whatever bytes its characters stand for elsewhere") {
  nlohmann::json json = tokenizer_json(ab_merges);
  json["model"]["vocab"]["<é>"] = 258;
  json["added_tokens"] = nlohmann::json::array({added_token(258, "<é>")});
  const DataFolder folder;
  const Tokenizer tokenizer = load_tokenizer(folder.write("tokenizer.json", json.dump()));
  CHECK(tokenizer.encode("<é>", SpecialTokens::as_tokens) == std::vector<TokenId>{258});
  CHECK(tokenizer.decode(std::vector<TokenId>{258}) == "<é>");
  json["added_tokens"] = nlohmann::json::array({added_token(json["model"]["vocab"]["é"], "é")});
  CHECK_THAT(load_refusal(json.dump()), Contains("the vocabulary lacks the byte 0xe9"));
  json = tokenizer_json({{"\xE9", "\xE9"}});
  json["added_tokens"] = nlohmann::json::array({added_token(256, "éé")});
  CHECK_THAT(load_refusal(json.dump()), Contains("the token 256 is an added one and, of other bytes, one of a merge"));
}

TEST_CASE("Files that are missing, too large or not JSON are refused") {
  const DataFolder folder;
  CHECK_THAT(refusal_of<DataError>([&] { load_tokenizer(folder.path("none.json")); }), Contains("none.json"));
  CHECK_THAT(refusal_of<DataError>([&] { load_tokenizer(folder.path()); }),
             Contains("holds neither a tokenizer.json nor a vocab.json"));
  CHECK_THAT(load_refusal(""), Contains("it is not JSON"));
  CHECK_THAT(load_refusal("{"), Contains("it is not JSON"));
  CHECK_THAT(load_refusal("[]"), Contains("it is [], where an object belongs"));
  CHECK_THAT(load_refusal(std::string(1000, '[')), Contains("it is not JSON"));
  const std::string large = folder.path("large.json");
  folder.write("large.json", "{}");
  std::filesystem::resize_file(large, most_tokenizer_file_bytes + 1);
  CHECK_THAT(refusal_of<DataError>([&] { load_tokenizer(large); }), Contains("at most 67108864 are read"));
}
