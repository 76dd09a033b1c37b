#include <fcntl.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "datasets/text/tokenizer_json.h"
#include "datasets/text/tokenizer_training.h"
#include "datasets/tokens/token_file.h"
#include "datasets/tokens/tokenized_text.h"
#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

DataConfig text_config(const DataFolder& folder, const std::string& train) {
  DataConfig config;
  config.type = DataType::text;
  config.train = train;
  config.sequence_length = 5;
  config.cache_folder = folder.path("cache");
  return config;
}

std::vector<std::int32_t> tokens_of(const std::string& file) {
  const TokenFile tokens(file);
  std::vector<std::int32_t> all(static_cast<std::size_t>(tokens.num_tokens()));
  tokens.read(0, tokens.num_tokens(), std::numeric_limits<std::int32_t>::max(), all.data());
  return all;
}

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

/// A text of many pieces, longer than what is read at a time.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 2'500'000; ++i)
    text += "word" + std::to_string(i % 1000 * 919 % 1000) + (i % 9 == 0 ? "\n" : " ");
  return text;
}

std::string small_tokenizer(const DataFolder& folder) {
  TokenizerTraining training;
  training.vocabulary_size = 300;
  training.expression = std::string(gpt2_expression);
  TokenizerTrainer trainer(training);
  trainer.add("word1 word2 word33 word444");
  return folder.write("tokenizer.json", json_of_tokenizer(trainer.train()));
}

}  // namespace

TEST_CASE("a text becomes its bytes, packed or not, and samples are windows of them") {
  const DataFolder folder;
  const std::string text = long_text();
  std::vector<std::int32_t> bytes;
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  for (const std::string& path : {folder.write("a.txt", text), folder.write("a.txt.gz", gzipped(text))}) {
    DataConfig config = text_config(folder, path);
    config.split = 0.1;
    CHECK(tokens_of(tokenized_text(path, Tokenizer::bytes(), config.cache_folder)) == bytes);
    const LoadedData data = load_data(config, 1);
    CHECK(data.description == describe_data(config, 1));
    CHECK(data.description.num_outputs == 256);
    CHECK(data.description.inputs.front().num_indices == 256);
    std::vector<std::int32_t> tokens(5), targets(5);
    data.validation->read(
        0, std::array{reinterpret_cast<std::byte*>(tokens.data()), reinterpret_cast<std::byte*>(targets.data())});
    const auto begin = bytes.end() - std::llround(0.1 * static_cast<double>(text.size()));
    CHECK(tokens == std::vector<std::int32_t>(begin, begin + 5));
    CHECK(targets == std::vector<std::int32_t>(begin + 1, begin + 6));
  }
}

TEST_CASE("a text is made tokens by a tokenizer's file") {
  const DataFolder folder;
  DataConfig config = text_config(folder, folder.write("a.txt", long_text()));
  config.tokenizer = small_tokenizer(folder);
  const Tokenizer tokenizer = tokenizer_named(config.tokenizer);
  const std::vector<TokenId> ids = tokenizer.encode(long_text());
  CHECK(ids.size() < long_text().size());
  CHECK(tokens_of(tokenized_text(config.train, tokenizer, config.cache_folder)) ==
        std::vector<std::int32_t>(ids.begin(), ids.end()));
  CHECK(describe_data(config, 1).num_outputs == static_cast<std::int64_t>(tokenizer.num_ids()));
  config.classes = 320;
  CHECK(load_data(config, 1).description.num_outputs == 320);
  config.classes = 100;
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("data.classes 100 is below the"));
  config.tokenizer = folder.path("none.json");
  CHECK_THAT(load_error(config), Contains("none.json"));
}

TEST_CASE("how many bytes of a text a validation target stands for is known") {
  const DataFolder folder;
  DataConfig config = text_config(folder, folder.write("a.txt", long_text().substr(0, 20'000)));
  CHECK(load_data(config, 1).bytes_of_target == 0);
  config.split = 0.1;
  CHECK(load_data(config, 1).bytes_of_target == 1);
  config.tokenizer = small_tokenizer(folder);
  const Tokenizer tokenizer = tokenizer_named(config.tokenizer);
  for (const std::int64_t samples : {std::int64_t{0}, std::int64_t{7}}) {
    config.validation_samples = samples;
    const LoadedData data = load_data(config, 1);
    std::vector<TokenId> targets;
    for (std::int64_t i = 0; i < data.validation->size(); ++i) {
      std::vector<std::int32_t> of_sample(5);
      data.validation->read_classes(i, of_sample.data());
      targets.insert(targets.end(), of_sample.begin(), of_sample.end());
    }
    REQUIRE(targets.size() >= 35);
    const auto num_bytes = static_cast<double>(tokenizer.decode(targets).size());
    CHECK(data.bytes_of_target == Approx(num_bytes / static_cast<double>(targets.size())));
    CHECK(data.bytes_of_target > 1);
  }
  // Of masked tokens a part counts.
  config.mask_token = 5;
  CHECK(load_data(config, 1).bytes_of_target == 0);
}

TEST_CASE("tokens are made once, and anew where the text or the tokenizer is another") {
  const DataFolder folder;
  DataConfig config = text_config(folder, folder.write("a.txt", "some words, and some more"));
  load_data(config, 1);
  const auto first = files_in(config.cache_folder);
  REQUIRE(first.size() == 1);
  const std::string made = folder.path("cache/" + first.begin()->first);
  struct stat before {
  }, after{};
  REQUIRE(stat(made.c_str(), &before) == 0);
  load_data(config, 2);
  REQUIRE(stat(made.c_str(), &after) == 0);
  CHECK((before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec));
  // Of the same size, a moment later.
  folder.write("a.txt", "same words, and some more");
  timespec times[2] = {{1, 5}, {1, 5}};
  REQUIRE(utimensat(AT_FDCWD, config.train.c_str(), times, 0) == 0);
  load_data(config, 1);
  CHECK(files_in(config.cache_folder).size() == 2);
  CHECK(files_in(config.cache_folder).at(first.begin()->first) == first.begin()->second);
  config.tokenizer = small_tokenizer(folder);
  load_data(config, 1);
  CHECK(files_in(config.cache_folder).size() == 3);
}

TEST_CASE("tokens of more ids than 16 bits have are kept in 32") {
  const DataFolder folder;
  const std::string path = folder.write("a.txt", "ab");
  TokenizerDefinition definition = Tokenizer::bytes().definition();
  definition.added_tokens.push_back({.id = 70'000, .content = "<end>", .is_special = true});
  const std::string made = tokenized_text(path, Tokenizer(definition), folder.path("cache"));
  CHECK(tokens_of(made) == std::vector<std::int32_t>{'a', 'b'});
  CHECK(std::filesystem::file_size(made) == 1024 + 2 * 4);
  CHECK(tokenized_text(path, Tokenizer(definition), folder.path("cache")) == made);
}

TEST_CASE("a text whose expression is not known to be cut is encoded as a whole") {
  const DataFolder folder;
  TokenizerTraining training;
  training.vocabulary_size = 300;
  training.expression = R"([^\n]*\n?)";
  TokenizerTrainer trainer(training);
  trainer.add("word1 word2 word33 word444\nword5");
  const Tokenizer tokenizer(trainer.train());
  const std::string text = long_text();
  const std::vector<TokenId> ids = tokenizer.encode(text);
  for (const std::string& path : {folder.write("a.txt", text), folder.write("a.txt.gz", gzipped(text))})
    CHECK(tokens_of(tokenized_text(path, tokenizer, folder.path("cache"))) ==
          std::vector<std::int32_t>(ids.begin(), ids.end()));
}

TEST_CASE("what is in the place of a text's tokens and is none of them is neither used nor in the way") {
  const DataFolder folder;
  const DataConfig config = text_config(folder, folder.write("a.txt", "some words, and some more"));
  const std::string made = tokenized_text(config.train, Tokenizer::bytes(), config.cache_folder);
  const auto whole = files_in(config.cache_folder);
  REQUIRE(whole.size() == 1);
  const std::string& bytes = whole.begin()->second;
  std::string of_others = bytes;
  of_others.replace(12, 8, 8, '\0');  // tokens of llm.c's, which nobody here made
  std::string of_more_ids = bytes;
  of_more_ids[17] = 2;
  std::string unfinished = bytes;
  unfinished.replace(0, 1024, 1024, '\0');
  for (const std::string& other :
       {std::string(), bytes.substr(0, 3), bytes.substr(0, 1030), bytes.substr(0, bytes.size() - 1), bytes + "a",
        std::string("some words"), of_others, of_more_ids, unfinished}) {
    std::ofstream(made, std::ios::binary) << other;
    load_data(config, 1);
    CHECK(files_in(config.cache_folder) == whole);
  }
  REQUIRE((std::filesystem::remove(made) && mkfifo(made.c_str(), 0600) == 0));
  load_data(config, 1);
  CHECK(files_in(config.cache_folder) == whole);
  // Of a process that was killed.
  std::filesystem::remove(made);
  std::ofstream(made + ".XyZaBc", std::ios::binary) << bytes.substr(0, 1030);
  load_data(config, 1);
  CHECK(files_in(config.cache_folder).at(whole.begin()->first) == bytes);
  REQUIRE((std::filesystem::remove(made) && std::filesystem::create_directory(made)));
  CHECK_THAT(load_error(config), Contains("cannot write the tokens '" + made + "': "));
}

TEST_CASE("runs that make the tokens of a text at once have the same, and leave one file") {
  const DataFolder folder;
  const std::string text = long_text();
  const DataConfig config = text_config(folder, folder.write("a.txt", text));
  std::array<std::string, 4> made;
  std::vector<std::thread> runs;
  for (std::string& each : made)
    runs.emplace_back([&] { each = tokenized_text(config.train, Tokenizer::bytes(), config.cache_folder); });
  for (std::thread& run : runs) run.join();
  CHECK(files_in(config.cache_folder).size() == 1);
  const std::vector<std::int32_t> tokens = tokens_of(made.front());
  CHECK(std::string(tokens.begin(), tokens.end()) == text);
  for (const std::string& each : made) CHECK(each == made.front());
}

TEST_CASE("texts have any names, and what is no text is told by its own") {
  const DataFolder folder;
  for (const std::string name : {"a\nb", "it's \"so\"", "%s{}", "\xff\xfe", "-o", "~", "$HOME.gz"}) {
    DataConfig config = text_config(folder, folder.write(name, "some words, and some more"));
    CHECK(load_data(config, 1).description.num_outputs == 256);
  }
  CHECK(files_in(folder.path("cache")).size() == 7);
  DataConfig config = text_config(folder, folder.path("cache"));
  CHECK_THAT(load_error(config), Contains("cache' is no file that a text can be read from"));
  config.train = folder.path("pipe");
  REQUIRE(mkfifo(config.train.c_str(), 0600) == 0);
  CHECK_THAT(load_error(config), Contains("pipe' is no file that a text can be read from"));
  config.train = folder.write("cut.gz", gzipped("some words, and some more").substr(0, 20));
  CHECK_THAT(load_error(config), Contains("cut.gz"));
  CHECK(files_in(folder.path("cache")).size() == 7);
}

TEST_CASE("the text of Shakespeare is fetched by a script, of which an error tells") {
  DataConfig config;
  config.type = DataType::text;
  config.root = "nowhere/shakespeare";
  config.train = "input.txt";
  CHECK_THAT(load_error(config), Contains("; scripts/get_data.sh shakespeare 'nowhere/shakespeare' fetches it"));
  config.train = "other.txt";
  CHECK_THAT(load_error(config), Contains("other.txt', which data.train names"));
}

TEST_CASE("a place where tokens cannot be kept is named") {
  const DataFolder folder;
  DataConfig config = text_config(folder, folder.write("a.txt", "some words, and some more"));
  config.cache_folder = folder.path("a.txt");
  CHECK_THAT(load_error(config), Contains("a.txt' of tokens: ") && Contains("data.cache_folder names another place"));
  config.cache_folder = folder.path("cache");
  config.train = folder.path("none.txt");
  CHECK_THAT(load_error(config), Contains("none.txt'"));
  config.train = folder.write("short.txt", "abc");
  CHECK_THAT(load_error(config), Contains("short.txt: 3 tokens; a sample of data.sequence_length 5 needs 6"));
}
