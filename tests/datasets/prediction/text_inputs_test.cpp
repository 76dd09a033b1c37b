#include "datasets/prediction/text_inputs.h"

#include <cstring>

#include "datasets/text/tokenizer_training.h"
#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t window_length = 4;

struct ReadWindow {
  std::string name, below, error;
  std::string tokens;  ///< as bytes
  std::size_t filling = 0;
  std::optional<std::int32_t> behind{};
};

InputDescription windows_of(std::int64_t length, std::int64_t vocabulary) {
  InputDescription input;
  input.type = {DType::i32, Shape{length}};
  input.num_indices = vocabulary;
  return input;
}

std::shared_ptr<const Tokenizer> of_bytes() { return std::make_shared<const Tokenizer>(Tokenizer::bytes()); }

std::vector<ReadWindow> read_windows(const std::vector<std::string>& files, bool by_line,
                                     std::shared_ptr<const Tokenizer> tokenizer = of_bytes(),
                                     std::int64_t length = window_length, std::int64_t vocabulary = 256) {
  InputPaths paths(files, tokenizer ? is_called_text : is_called_tokens, {});
  const std::unique_ptr<InputStream> stream =
      text_inputs(std::move(paths), std::move(tokenizer), windows_of(length, vocabulary), by_line);
  CHECK(!stream->count());
  const std::unique_ptr<InputReader> reader = stream->make_reader();
  std::vector<ReadWindow> windows;
  for (PredictionInput input; stream->next(input); input.restart(input.number + 1)) {
    ReadWindow& window = windows.emplace_back();
    window.name = input.name;
    window.below = input.below;
    window.error = input.error;
    window.behind = input.window.behind;
    if (!input.error.empty()) {
      CHECK(!input.window.behind);
      continue;
    }
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length), -1);
    reader->read(input, reinterpret_cast<std::byte*>(tokens.data()));
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int32_t token = tokens[static_cast<std::size_t>(i)];
      if (i < input.window.num_tokens)
        window.tokens += static_cast<char>(token);
      else
        window.filling += token == 0 ? 1 : 0;
    }
    CHECK(window.tokens.size() + window.filling == static_cast<std::size_t>(length));
  }
  return windows;
}

/// What the windows of a text hold, joined, having checked that each names the token that the next begins with.
std::string joined(const std::vector<ReadWindow>& windows) {
  std::string text;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    CHECK(windows[i].error.empty());
    text += windows[i].tokens;
    REQUIRE(windows[i].behind.has_value() == (i + 1 < windows.size()));
    if (windows[i].behind) CHECK(*windows[i].behind == static_cast<unsigned char>(windows[i + 1].tokens[0]));
  }
  return text;
}

}  // namespace

TEST_CASE("a text is windows one behind the other, of which the last is filled up") {
  const DataFolder folder;
  const std::string letters = "abcdefghij";
  for (std::size_t size = 1; size <= letters.size(); ++size) {
    const std::string file = folder.write("a.txt", letters.substr(0, size));
    const std::vector<ReadWindow> windows = read_windows({file}, false);
    CHECK(windows.size() == (size + 3) / 4);
    CHECK(joined(windows) == letters.substr(0, size));
    CHECK(windows.back().filling == windows.size() * 4 - size);
    for (const ReadWindow& window : windows) {
      CHECK(window.name == file);
      CHECK(window.below == "a.txt");
    }
  }
}

TEST_CASE("texts come in order, in folders those that are called so, plain or gzip") {
  const DataFolder folder;
  std::filesystem::create_directory(folder.path("in"));
  folder.write("in/b.txt", "bbbbb");
  folder.write("in/a.md.gz", gzipped("aa"));
  folder.write("in/c.text", "\xff\r\n");
  folder.write("in/d.png", "dd");
  const std::string named = folder.write("named", "n");
  const std::vector<ReadWindow> windows = read_windows({named, folder.path("in")}, false);
  REQUIRE(windows.size() == 5);
  CHECK(windows[0].tokens == "n");
  CHECK((windows[1].tokens == "aa" && windows[1].below == "a.md.gz"));
  CHECK((windows[2].tokens == "bbbb" && windows[2].behind == 'b'));
  CHECK((windows[3].tokens == "b" && !windows[3].behind));
  CHECK(windows[4].tokens == "\xff\r\n");
}

TEST_CASE("each line is a text, without its end, and an empty one is told") {
  const DataFolder folder;
  const std::string file = folder.write("a.txt", "first\r\n\n\r\nc\rd\nlast");
  const std::vector<ReadWindow> windows = read_windows({file}, true);
  REQUIRE(windows.size() == 6);
  CHECK((windows[0].tokens == "firs" && windows[0].behind == 't' && windows[0].name == file + ":1"));
  CHECK((windows[1].tokens == "t" && !windows[1].behind && windows[1].name == file + ":1"));
  CHECK((windows[2].name == file + ":2" && windows[3].name == file + ":3"));
  for (const std::size_t i : {2, 3}) CHECK_THAT(windows[i].error, Contains(windows[i].name + ": is empty"));
  CHECK((windows[4].tokens == "c\rd" && windows[4].name == file + ":4"));
  CHECK((windows[5].tokens == "last" && windows[5].name == file + ":5"));

  // A last line feed ends a line and begins none; without any line the file is told.
  CHECK(read_windows({folder.write("b.txt", "a\nb\n")}, true).size() == 2);
  CHECK(read_windows({folder.write("c.txt.gz", gzipped("a\nb\n"))}, true).size() == 2);
  const std::vector<ReadWindow> none = read_windows({folder.write("d.txt", ""), file}, true);
  REQUIRE(none.size() == 7);
  CHECK((none[0].name == folder.path("d.txt") && !none[0].error.empty()));

  // Longer than what is read at once.
  std::string many;
  for (int i = 0; i < 30000; ++i) many += std::string(static_cast<std::size_t>(i % 4) + 1, 'x') + "\n";
  const std::vector<ReadWindow> all = read_windows({folder.write("many.txt", many)}, true);
  REQUIRE(all.size() == 30000);
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i].tokens.size() == i % 4 + 1);
}

TEST_CASE("a text that cannot be read is one input with its error, and the others come") {
  const DataFolder folder;
  const std::string good = folder.write("good.txt", "good"), empty = folder.write("empty.txt", "");
  const std::string broken = folder.write("broken.txt.gz", gzipped(std::string(5000, 'a')).substr(0, 20));
  const std::string missing = folder.path("missing.txt");
  for (const bool by_line : {false, true}) {
    const std::vector<ReadWindow> windows = read_windows({missing, good, empty, broken, good}, by_line);
    std::vector<std::string> told, failed;
    for (const ReadWindow& window : windows) (window.error.empty() ? told : failed).push_back(window.name);
    const std::string name = by_line ? good + ":1" : good;
    CHECK(told == std::vector<std::string>{name, name});
    CHECK(failed == std::vector<std::string>{missing, empty, broken});
  }
}

TEST_CASE("a text that is too long is told how it is judged, and the lines behind one come") {
  const DataFolder folder;
  const std::string file = folder.path("long.txt");
  std::ofstream(file, std::ios::binary) << "short\n"
                                        << std::string(static_cast<std::size_t>(most_text_bytes) + 1, 'a') << "\nlast";
  const std::vector<ReadWindow> whole = read_windows({file}, false);
  REQUIRE(whole.size() == 1);
  CHECK_THAT(whole[0].error, Contains("64.00 MiB") && Contains("trainer eval RUN --data " + file));
  const std::vector<ReadWindow> lines = read_windows({file}, true, of_bytes(), 16);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].tokens == "short");
  CHECK(lines[1].error == file + ":2: a line has at most 64.00 MiB here");
  CHECK((lines[2].tokens == "last" && lines[2].name == file + ":3"));
}

TEST_CASE("a text encoded in stretches has the tokens of the whole") {
  const DataFolder folder;
  std::string text;
  for (int i = 0; text.size() < (std::size_t{5} << 18); ++i) text += "word" + std::to_string(i * 7919 % 1000) + " ";
  TokenizerTrainer trainer({.vocabulary_size = 300});
  trainer.add(std::string_view(text).substr(0, 20000));
  const auto tokenizer = std::make_shared<const Tokenizer>(trainer.train());
  const std::vector<TokenId> whole = tokenizer->encode(text, SpecialTokens::as_text);
  InputPaths paths({folder.write("a.txt", text)}, is_called_text, {});
  const std::unique_ptr<InputStream> stream = text_inputs(std::move(paths), tokenizer, windows_of(1000, 300), false);
  std::vector<TokenId> tokens;
  for (PredictionInput input; stream->next(input); input.restart(input.number + 1))
    for (std::int64_t i = 0; i < input.window.num_tokens; ++i) {
      std::int32_t token = 0;
      std::memcpy(&token, input.bytes.data() + i * 4, 4);
      tokens.push_back(static_cast<TokenId>(token));
    }
  CHECK(tokens == whole);
}

TEST_CASE("a file of tokens is a text, read window by window, and ends at a token that the model does not know") {
  const DataFolder folder;
  const std::string file = folder.write("a.bin", bytes_of({1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0}));
  const std::vector<ReadWindow> windows = read_windows({file}, false, nullptr);
  REQUIRE(windows.size() == 2);
  CHECK((windows[0].tokens == "\1\2\3\4" && windows[0].behind == 5));
  CHECK((windows[1].tokens == "\5\6" && !windows[1].behind));
  // What lies in the next window shows only where that is read.
  const std::vector<ReadWindow> small = read_windows({file, file}, false, nullptr, 2, 6);
  REQUIRE(small.size() == 6);
  CHECK((small[0].tokens == "\1\2" && small[0].behind == 3));
  CHECK((small[1].tokens == "\3\4" && small[1].behind == 5));
  CHECK_THAT(small[2].error, Contains("token 6 at place 5"));
  CHECK(small[3].tokens == "\1\2");
  const std::vector<ReadWindow> odd =
      read_windows({folder.write("odd.bin", "abc"), folder.write("none.bin", "")}, false, nullptr);
  REQUIRE(odd.size() == 2);
  CHECK_THAT(odd[0].error, Contains("16 bits"));
  CHECK_THAT(odd[1].error, Contains("is empty"));
}

TEST_CASE("a text is not read as tokens, nor tokens as a text") {
  const DataFolder folder;
  const std::string text = folder.write("a.txt", "abcd"), tokens = folder.write("a.bin", "abcd");
  for (const bool are_texts : {true, false}) {
    const std::vector<ReadWindow> windows =
        read_windows({text, tokens}, false, are_texts ? of_bytes() : nullptr, 4, 65536);
    REQUIRE(windows.size() == 2);
    CHECK(windows[0].error.empty() == are_texts);
    CHECK(windows[1].error.empty() != are_texts);
    CHECK_THAT(windows[are_texts ? 1 : 0].error,
               Contains(are_texts ? "is called a file of tokens" : "is called a text"));
  }
}

TEST_CASE("images and arrays are neither texts nor tokens") {
  const DataFolder folder;
  for (const char* name : {"a.PNG", "a.npy", "train-images.idx3-ubyte.gz"}) {
    const std::string file = folder.write(name, "abcd"), plain = folder.write("named", "abcd");
    for (const bool are_texts : {true, false}) {
      const std::vector<ReadWindow> windows =
          read_windows({file, plain}, false, are_texts ? of_bytes() : nullptr, 4, 65536);
      REQUIRE(windows.size() == 2);
      CHECK_THAT(windows[0].error, Contains(file + ": is called a") && Contains(are_texts ? "takes texts" : ".bin"));
      CHECK(windows[1].error.empty());
    }
  }
}

TEST_CASE("a folder that a line names and that cannot be read is one input under its name") {
  const DataFolder folder;
  const std::string deep = folder.path("deep"), file = folder.write("a.txt", "abc");
  std::string nested = deep;
  for (int i = 0; i < 66; ++i) nested += "/d";
  std::filesystem::create_directories(nested);
  std::vector<std::string> lines = {file, deep, file};
  InputPaths paths({"-"}, is_called_text, [&lines, next = std::size_t{0}](std::string& line) mutable {
    if (next == lines.size()) return false;
    line = lines[next++];
    return true;
  });
  const std::unique_ptr<InputStream> stream = text_inputs(std::move(paths), of_bytes(), windows_of(4, 256), false);
  std::vector<std::string> told, failed;
  for (PredictionInput input; stream->next(input); input.restart(input.number + 1)) {
    told.push_back(input.name);
    if (!input.error.empty()) failed.push_back(input.name);
  }
  CHECK(told == lines);
  CHECK(failed == std::vector<std::string>{deep});
}

TEST_CASE("a tokenizer of more tokens than the model knows is not its own") {
  const DataFolder folder;
  CHECK_THROWS_AS(read_windows({folder.write("a.txt", "a")}, false, of_bytes(), 4, 255), ConfigError);
}

TEST_CASE("tokens are shown on one line") {
  const std::vector<std::string> shown = shown_tokens(Tokenizer::bytes());
  REQUIRE(shown.size() == 256);
  CHECK((shown['a'] == "a" && shown[' '] == " " && shown['\n'] == "\\n" && shown['\t'] == "\\t"));
  CHECK((shown[0x1b] == "\\x1b" && shown[0xff] == "\\xff" && shown['\r'] == "\\x0d"));
}
