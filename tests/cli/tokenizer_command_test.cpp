#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Number>
std::vector<Number> file_numbers(const std::string& path, std::size_t from = 0) {
  const std::string bytes = file_text(path).substr(from);
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

/// A folder with a text of 3,000 bytes.
struct TextFolder : ScratchFolder {
  TextFolder() {
    std::ofstream file(*this / "text.txt", std::ios::binary);
    for (int i = 0; i < 100; ++i) file << "the cat sat on 12 hats, <end>\n";
  }
  std::string text() const { return *this / "text.txt"; }
};

}  // namespace

TEST_CASE("a tokenizer is learned, written, and encodes a text to nanoGPT's format") {
  const TextFolder folder;
  const std::string tokenizer = folder / "tokenizer.json", tokens = folder / "tokens.bin";
  const ProcessResult learned = run_trainer(
      {"tokenizer", "train", folder.text(), folder.text(), "--vocab", "270", "--special", "<end>", "-o", tokenizer});
  INFO(learned.err);
  REQUIRE(learned.exit_code == 0);
  CHECK_THAT(learned.out, Contains("270 tokens: 1 special, 256 bytes, 13 merges") && Contains("2 files"));
  const ProcessResult encoded =
      run_trainer({"tokenizer", "encode", tokenizer, folder.text(), "-o", tokens, "--special", "--json"});
  INFO(encoded.err);
  REQUIRE(encoded.exit_code == 0);
  const nlohmann::json told = events_of(encoded.out).at(0);
  CHECK(told["event"] == "encoding");
  CHECK(told["bytes"] == 3000);
  CHECK(told["special_tokens"] == 100);
  CHECK(told["bits"] == 16);
  const std::vector<std::uint16_t> ids = file_numbers<std::uint16_t>(tokens);
  CHECK(told["tokens"] == ids.size());
  CHECK(ids.size() < 1500);
  CHECK(std::count(ids.begin(), ids.end(), 0) == 100);
  CHECK_FALSE(std::filesystem::exists(tokens + ".tmp"));
}

TEST_CASE("bytes are a tokenizer without a file, and llm.c's format begins with its header") {
  const TextFolder folder;
  const std::string tokens = folder / "tokens.bin";
  REQUIRE(run_trainer({"tokenizer", "encode", "bytes", folder.text(), "-o", tokens, "--format", "llm.c"}).exit_code ==
          0);
  const std::vector<std::int32_t> header = file_numbers<std::int32_t>(tokens);
  CHECK(std::vector<std::int32_t>(header.begin(), header.begin() + 4) ==
        std::vector<std::int32_t>{20240520, 1, 3000, 0});
  const std::vector<std::uint16_t> ids = file_numbers<std::uint16_t>(tokens, 1024);
  const std::string text = file_text(folder.text());
  CHECK(ids == std::vector<std::uint16_t>(text.begin(), text.end()));
}

TEST_CASE("ids that do not fit 16 bits are refused for nanoGPT's format and are llm.c's wide ones") {
  const TextFolder folder;
  const std::string tokenizer = folder / "tokenizer.json", tokens = folder / "tokens.bin";
  REQUIRE(run_trainer({"tokenizer", "train", folder.text(), "--vocab", "256", "-o", tokenizer}).exit_code == 0);
  nlohmann::json json = nlohmann::json::parse(file_text(tokenizer));
  json["added_tokens"] = {{{"id", 65'536}, {"content", "<end>"}, {"special", true}}};
  std::ofstream(tokenizer) << json.dump();
  const ProcessResult narrow = run_trainer({"tokenizer", "encode", tokenizer, folder.text(), "-o", tokens});
  CHECK(narrow.exit_code == 6);
  CHECK_THAT(narrow.err, Contains("ids up to 65536 do not fit 16 bits; --format llm.c writes 32 bits each"));
  CHECK_FALSE(std::filesystem::exists(tokens));
  CHECK_FALSE(std::filesystem::exists(tokens + ".tmp"));
  REQUIRE(run_trainer({"tokenizer", "encode", tokenizer, folder.text(), "-o", tokens, "--format", "llm.c", "--special"})
              .exit_code == 0);
  const std::vector<std::uint32_t> words = file_numbers<std::uint32_t>(tokens);
  CHECK(words[0] == 20240801);
  CHECK(words[1] == 7);
  CHECK(words[2] == words.size() - 256);
  CHECK(std::count(words.begin(), words.end(), 65'536U) == 100);
}

TEST_CASE("what exists is replaced only where that is asked for, before any work") {
  const TextFolder folder;
  const std::string kept = folder / "kept";
  std::ofstream(kept) << "kept";
  for (std::vector<std::string> words :
       std::vector<std::vector<std::string>>{{"tokenizer", "train", folder.text(), "--vocab", "260", "-o", kept},
                                             {"tokenizer", "encode", "bytes", folder.text(), "-o", kept}}) {
    std::ofstream(kept) << "kept";
    const ProcessResult refused = run_trainer(words);
    CHECK(refused.exit_code == 6);
    CHECK_THAT(refused.err, Contains("exists; name another file, or replace it with --overwrite"));
    CHECK(file_text(kept) == "kept");
    words.emplace_back("--overwrite");
    CHECK(run_trainer(words).exit_code == 0);
    CHECK(file_text(kept) != "kept");
  }
}

TEST_CASE("an empty text has no tokens, and one that cannot be read is a data error") {
  const TextFolder folder;
  std::ofstream(folder / "empty").flush();
  const ProcessResult empty =
      run_trainer({"tokenizer", "encode", "bytes", folder / "empty", "-o", folder / "tokens.bin", "--json"});
  REQUIRE(empty.exit_code == 0);
  CHECK(events_of(empty.out).at(0)["tokens"] == 0);
  CHECK(events_of(empty.out).at(0)["tokens_per_byte"] == 0);
  CHECK(std::filesystem::file_size(folder / "tokens.bin") == 0);
  CHECK(run_trainer({"tokenizer", "encode", "bytes", folder / "none"}).exit_code == 6);
  CHECK(run_trainer({"tokenizer", "encode", folder / "none", folder.text()}).exit_code == 6);
  CHECK(run_trainer({"tokenizer", "encode", "bytes", folder.path()}).exit_code == 6);
  CHECK(run_trainer({"tokenizer", "encode", "bytes", folder.text(), "-o", folder / "no/folder"}).exit_code == 6);
}

TEST_CASE("a text that is gzip is unpacked, and one that is cut off is a data error") {
  const ScratchFolder folder;
  const std::string digits = "datasets/digits.csv.gz", packed = file_text(std::string(TRAINER_SOURCE_DIR "/") + digits);
  const ProcessResult result = run_trainer({"tokenizer", "encode", "bytes", digits, "--json"});
  REQUIRE(result.exit_code == 0);
  CHECK(events_of(result.out).at(0)["bytes"].get<std::size_t>() > 2 * packed.size());
  CHECK(events_of(result.out).at(0)["distinct_tokens"] < 20);
  std::ofstream(folder / "cut.gz", std::ios::binary) << packed.substr(0, packed.size() / 2);
  CHECK(run_trainer({"tokenizer", "encode", "bytes", folder / "cut.gz"}).exit_code == 6);
}

TEST_CASE("wrong usage of tokenizer is told") {
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"tokenizer"}, "a command is missing; there are: train, encode"},
           {{"tokenizer", "trian"}, "unknown command 'trian'; did you mean 'train'?"},
           {{"tokenizer", "train", "README.md", "-o", "x"}, "--vocab is missing"},
           {{"tokenizer", "train", "README.md", "--vocab", "300"}, "--output is missing"},
           {{"tokenizer", "train", "README.md", "--vocab", "3", "-o", "none"}, "--vocab"},
           {{"tokenizer", "train", "README.md", "--vocab", "300", "--pattern", "gpt5", "-o", "none"}, "gpt5"},
           {{"tokenizer", "train", "README.md", "--vocab", "256", "--special", "<a>", "-o", "none"},
            "from 257 (256 bytes and 1 special)"},
           {{"tokenizer", "encode", "bytes"}, "FILE is missing"},
           {{"tokenizer", "encode", "bytes", "README.md", "--format", "npy", "-o", "none"}, "npy"},
       }) {
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains(said));
  }
}

TEST_CASE("what is read is not written over, though --overwrite asks for it") {
  const TextFolder folder;
  const std::string tokenizer = folder / "tokenizer.json", text = file_text(folder.text());
  const std::string same = folder / "./text.txt";
  const auto check_refused = [](const ProcessResult& result) {
    CHECK(result.exit_code == 6);
    CHECK_THAT(result.err, Contains("is read by this command"));
  };
  check_refused(run_trainer({"tokenizer", "train", folder.text(), "--vocab", "260", "-o", same, "--overwrite"}));
  REQUIRE(run_trainer({"tokenizer", "train", folder.text(), "--vocab", "260", "-o", tokenizer}).exit_code == 0);
  const std::string learned = file_text(tokenizer);
  for (const std::string& output : {same, tokenizer})
    for (const std::string& given : {tokenizer, folder / ""})
      check_refused(run_trainer({"tokenizer", "encode", given, folder.text(), "-o", output, "--overwrite"}));
  CHECK(file_text(folder.text()) == text);
  CHECK(file_text(tokenizer) == learned);
}

TEST_CASE("a file of tokens is told as the text that it was, whole or in part") {
  const TextFolder folder;
  const std::string tokenizer = folder / "tokenizer.json", tokens = folder / "tokens.bin";
  REQUIRE(run_trainer({"tokenizer", "train", folder.text(), "--vocab", "300", "-o", tokenizer}).exit_code == 0);
  for (const std::string format : {"nanogpt", "llm.c"}) {
    REQUIRE(
        run_trainer({"tokenizer", "encode", tokenizer, folder.text(), "-o", tokens, "--format", format, "--overwrite"})
            .exit_code == 0);
    const ProcessResult decoded = run_trainer({"tokenizer", "decode", tokenizer, tokens});
    CHECK(decoded.exit_code == 0);
    CHECK(decoded.out == file_text(folder.text()));
  }
  const ProcessResult written = run_trainer({"tokenizer", "decode", tokenizer, tokens, "-o", folder / "again.txt"});
  CHECK(written.exit_code == 0);
  CHECK(written.out.empty());
  CHECK(file_text(folder / "again.txt") == file_text(folder.text()));
  const ProcessResult part = run_trainer({"tokenizer", "decode", "bytes", tokens, "--first", "4", "--count", "3"});
  CHECK(part.exit_code == 6);  // tokens of another vocabulary
  CHECK_THAT(part.err, Contains("tokens.bin"));
  REQUIRE(run_trainer({"tokenizer", "encode", "bytes", folder.text(), "-o", tokens, "--overwrite"}).exit_code == 0);
  CHECK(run_trainer({"tokenizer", "decode", "bytes", tokens, "--first", "4", "--count", "3"}).out == "cat");
  CHECK(run_trainer({"tokenizer", "decode", "bytes", tokens, "--first", "2999", "--count", "9"}).out == "\n");
  CHECK(run_trainer({"tokenizer", "decode", "bytes", tokens, "--first", "3001"}).exit_code == 6);
  CHECK(run_trainer({"tokenizer", "decode", "bytes", tokens, "-o", tokens, "--overwrite"}).exit_code == 6);
}
