#include <cmath>
#include <map>
#include <set>

#include "datasets/batch_reader.h"
#include "datasets/tokens/token_windows.h"
#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

template <typename Token>
std::string token_bytes(const std::vector<Token>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)};
}

/// Tokens first, first + 1, … modulo `vocabulary`.
template <typename Token = std::uint16_t>
std::vector<Token> counting(std::int64_t count, std::int64_t first = 0, std::int64_t vocabulary = 60000) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<Token>((first + i) % vocabulary));
  return tokens;
}

std::string llm_c_file(std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return token_bytes(header) + tokens;
}

DataConfig token_config(const std::string& train, std::int64_t sequence_length) {
  DataConfig config;
  config.type = DataType::tokens;
  config.train = train;
  config.sequence_length = sequence_length;
  return config;
}

struct Window {
  std::vector<std::int32_t> tokens, targets;
};

Window window_of(SampleReader& reader, const Dataset& data, std::int64_t epoch, std::int64_t index) {
  const auto length = static_cast<std::size_t>(data.target_type().num_elements());
  Window window{std::vector<std::int32_t>(length), std::vector<std::int32_t>(length)};
  reader.read(epoch, index,
              std::array{reinterpret_cast<std::byte*>(window.tokens.data()),
                         reinterpret_cast<std::byte*>(window.targets.data())});
  std::vector<std::int32_t> classes(length);
  reader.read_classes(epoch, index, classes.data());
  CHECK(classes == window.targets);
  return window;
}

/// The place of the first token of each window of an epoch, of a file that counts from 0; its windows are checked.
std::vector<std::int32_t> places(const Dataset& data, std::int64_t epoch) {
  const std::unique_ptr<SampleReader> reader = data.make_reader();
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const Window window = window_of(*reader, data, epoch, i);
    for (std::size_t t = 0; t < window.tokens.size(); ++t) {
      CHECK(window.tokens[t] == window.tokens[0] + static_cast<std::int32_t>(t));
      CHECK(window.targets[t] == window.tokens[t] + 1);
    }
    result.push_back(window.tokens[0]);
  }
  return result;
}

std::int64_t held_bytes_of(const Dataset& part) { return dynamic_cast<const TokenWindows&>(part).held_bytes(); }

}  // namespace

TEST_CASE("files of tokens of nanoGPT and of llm.c are told apart and read as the same sequences") {
  const DataFolder folder;
  for (const std::string& path :
       {folder.write("nano.bin", token_bytes(counting(50))),
        folder.write("narrow.bin", llm_c_file(20240520, 1, 50, token_bytes(counting(50)))),
        folder.write("wide.bin", llm_c_file(20240801, 7, 50, token_bytes(counting<std::uint32_t>(50))))}) {
    INFO(path);
    const DataConfig config = token_config(path, 7);
    const LoadedData data = load_data(config, 1);
    CHECK(data.description == describe_data(config, 1));
    const InputDescription& input = data.description.inputs.front();
    CHECK(input.type == TensorType{DType::i32, Shape{7}});
    CHECK(input.num_indices == 50);
    CHECK(data.description.target == input.type);
    CHECK(data.description.num_outputs == 50);
    CHECK(data.description.held_bytes == 0);
    CHECK(data.validation == nullptr);
    CHECK(data.train->size() == 6);
    CHECK(places(*data.train, 0).size() == 6);
  }
}

TEST_CASE("windows of an epoch lie one behind another, from a place that each epoch draws anew") {
  const DataFolder folder;
  const LoadedData data = load_data(token_config(folder.write("a.bin", token_bytes(counting(103))), 10), 5);
  REQUIRE(data.train->size() == 9);
  std::set<std::int32_t> firsts;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const std::vector<std::int32_t> begins = places(*data.train, epoch);
    CHECK((begins[0] >= 0 && begins[0] < 10));
    for (std::size_t i = 1; i < begins.size(); ++i) CHECK(begins[i] == begins[i - 1] + 10);
    firsts.insert(begins[0]);
    CHECK(places(*data.train, epoch) == begins);
  }
  CHECK(firsts.size() == 10);
  const LoadedData other = load_data(token_config(folder.path("a.bin"), 10), 6);
  std::vector<std::int32_t> one, another;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    one.push_back(places(*data.train, epoch)[0]);
    another.push_back(places(*other.train, epoch)[0]);
  }
  CHECK(one != another);
}

TEST_CASE("a text that is hardly as long as a sample gives one, wherever it fits") {
  const DataFolder folder;
  for (const auto& [num_tokens, num_places] :
       {std::pair<std::int64_t, std::size_t>{11, 1}, {12, 2}, {20, 10}, {21, 10}}) {
    INFO(num_tokens);
    const LoadedData data = load_data(token_config(folder.write("a.bin", token_bytes(counting(num_tokens))), 10), 1);
    REQUIRE(data.train->size() == 1);
    std::set<std::int32_t> firsts;
    for (std::int64_t epoch = 0; epoch < 200; ++epoch) firsts.insert(places(*data.train, epoch)[0]);
    CHECK(firsts.size() == num_places);
    CHECK(*firsts.rbegin() + 10 < num_tokens);
  }
  CHECK_THAT(load_error(token_config(folder.write("a.bin", token_bytes(counting(10))), 10)),
             Contains("a.bin: 10 tokens; a sample of data.sequence_length 10 needs 11"));
  CHECK_THAT(load_error(token_config(folder.write("a.bin", ""), 1)), Contains("a.bin: 0 tokens"));
}

TEST_CASE("what a split sets aside is the end of a text, whose windows are the same in every epoch") {
  const DataFolder folder;
  DataConfig config = token_config(folder.write("a.bin", token_bytes(counting(1000))), 10);
  config.split = 0.2;
  const LoadedData data = load_data(config, 3);
  REQUIRE(data.validation != nullptr);
  REQUIRE(data.train->size() == 79);
  REQUIRE(data.validation->size() == 19);
  for (const std::int64_t epoch : {0, 1, 2}) {
    // The last target of training is in front of the first token of validation.
    CHECK(places(*data.train, epoch).back() + 10 < 800);
    CHECK(places(*data.validation, epoch).front() == 800);
    CHECK(places(*data.validation, epoch).back() == 980);
  }
  config.split = 0.005;
  CHECK_THAT(load_error(config), Contains("a part of it has 5 tokens; a sample of data.sequence_length 10 needs 11"));
  config.split = 0;
  config.validation = folder.write("b.bin", token_bytes(counting(31)));
  const LoadedData own = load_data(config, 3);
  CHECK(own.train->size() == 99);
  CHECK(places(*own.validation, 7) == std::vector<std::int32_t>{0, 10, 20});
}

TEST_CASE("of masked windows some tokens count, most of which became the mask, others in each epoch") {
  const DataFolder folder;
  constexpr std::int32_t vocabulary = 5000, mask = 4999;
  DataConfig config = token_config(folder.write("a.bin", token_bytes(counting(40000, 0, vocabulary - 1))), 100);
  config.classes = vocabulary;
  config.mask_token = mask;
  config.split = 0.25;
  const LoadedData data = load_data(config, 3);
  CHECK(data.description.has_negative_targets);
  std::int64_t num_tokens = 0, num_counting = 0, num_masks = 0, num_kept = 0;
  const std::unique_ptr<SampleReader> reader = data.train->make_reader();
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    for (std::int64_t i = 0; i < data.train->size(); ++i) {
      const Window window = window_of(*reader, *data.train, epoch, i);
      CHECK(std::any_of(window.targets.begin(), window.targets.end(), [](std::int32_t t) { return t >= 0; }));
      const auto begin = static_cast<const TokenWindows&>(*data.train).range_of(epoch, i).begin;
      for (std::size_t t = 0; t < window.tokens.size(); ++t) {
        const auto written = static_cast<std::int32_t>((begin + static_cast<std::int64_t>(t)) % (vocabulary - 1));
        ++num_tokens;
        if (window.targets[t] == -100) {
          REQUIRE(window.tokens[t] == written);
          continue;
        }
        REQUIRE(window.targets[t] == written);
        REQUIRE(window.tokens[t] < vocabulary);
        ++num_counting;
        num_masks += window.tokens[t] == mask ? 1 : 0;
        num_kept += window.tokens[t] == written ? 1 : 0;
      }
    }
  const auto share = [&](std::int64_t count, std::int64_t of) {
    return static_cast<double>(count) / static_cast<double>(of);
  };
  CHECK(share(num_counting, num_tokens) == Approx(0.15 + 0.85 / 100).margin(0.005));
  CHECK(share(num_masks, num_counting) == Approx(0.8).margin(0.01));
  CHECK(share(num_kept, num_counting) == Approx(0.1).margin(0.01));
  CHECK(window_of(*reader, *data.train, 0, 0).targets != window_of(*reader, *data.train, 0, 1).targets);
  const std::unique_ptr<SampleReader> validation = data.validation->make_reader();
  CHECK(window_of(*validation, *data.validation, 0, 1).tokens == window_of(*validation, *data.validation, 7, 1).tokens);
  config.mask_share = 1e-9;
  const LoadedData rare = load_data(config, 3);
  const Window window = window_of(*rare.train->make_reader(), *rare.train, 0, 5);
  CHECK(std::count_if(window.targets.begin(), window.targets.end(), [](std::int32_t t) { return t >= 0; }) == 1);
  config.mask_token = vocabulary;
  CHECK_THROWS_WITH(load_data(config, 3), Contains("data.mask_token 5000 is no token of a vocabulary of 5000"));
}

TEST_CASE("fewer samples than a text has are the same windows of each epoch, from other places") {
  const DataFolder folder;
  DataConfig config = token_config(folder.write("a.bin", token_bytes(counting(1000))), 10);
  config.samples = 7;
  const LoadedData data = load_data(config, 3);
  const std::vector<std::int32_t> first = places(*data.train, 0), second = places(*data.train, 1);
  REQUIRE(first.size() == 7);
  std::set<std::int32_t> moves;
  for (std::size_t i = 0; i < 7; ++i) moves.insert(second[i] - first[i]);
  CHECK(moves.size() == 1);
  CHECK(*moves.begin() != 0);
}

TEST_CASE("a token that the vocabulary has not is told with its file and its place when it is read") {
  const DataFolder folder;
  std::vector<std::uint16_t> tokens = counting(100, 0, 50);
  tokens[63] = 51;
  DataConfig config = token_config(folder.write("a.bin", token_bytes(tokens)), 10);
  config.classes = 51;
  const LoadedData data = load_data(config, 1);
  const std::unique_ptr<SampleReader> reader = data.train->make_reader();
  const auto read_all = [&] {
    for (std::int64_t i = 0; i < data.train->size(); ++i) window_of(*reader, *data.train, 0, i);
  };
  CHECK_THAT(error_of(read_all),
             Contains("a.bin: token 51 at place 63 is not below the 51 of the vocabulary, data.classes"));
  config.classes = 0;
  CHECK(describe_data(config, 1).num_outputs == 52);
  const std::string huge = llm_c_file(20240801, 7, 12, token_bytes(std::vector<std::uint32_t>(12, 0xFFFFFFFFU)));
  CHECK_THAT(load_error(token_config(folder.write("huge.bin", huge), 2)),
             Contains("huge.bin: token 4294967295 is larger than any vocabulary"));
}

TEST_CASE("files that are no tokens are refused by name") {
  const DataFolder folder;
  const auto error = [&](const std::string& bytes) {
    return load_error(token_config(folder.write("a.bin", bytes), 2));
  };
  CHECK_THAT(error("odd"), Contains("a.bin: 3 bytes are no tokens of 16 bits, and it has no header of llm.c"));
  CHECK_THAT(error(llm_c_file(20240520, 2, 9, token_bytes(counting(9)))),
             Contains("it has the header of llm.c's tokens of version 2; known is 1"));
  CHECK_THAT(error(llm_c_file(20240520, 1, 9, token_bytes(counting(8)))),
             Contains("its header tells of 9 tokens, which are 1042 bytes with it; it has 1040"));
  CHECK_THAT(error(llm_c_file(20240801, 7, -1, token_bytes(counting<std::uint32_t>(8)))),
             Contains("its header tells of 4294967295 tokens"));
  CHECK_THAT(error(llm_c_file(20240520, 1, 9, token_bytes(counting(9))).substr(0, 100)),
             Contains("which are 1042 bytes with it; it has 100"));
  CHECK_THAT(load_error(token_config(folder.path("none.bin"), 2)), Contains("none.bin'"));
  CHECK_THAT(load_error(token_config(folder.path(), 2)), Contains("is not a file"));
}

TEST_CASE("tokens that are declared need no file") {
  DataConfig config = token_config("no/such.bin", 16);
  CHECK_THAT(error_of([&] { describe_data(config, 1); }),
             Contains("declare data.classes, data.samples and data.validation_samples"));
  config.classes = 50257;
  config.samples = 1000;
  config.validation_samples = 10;
  const DataDescription description = describe_data(config, 1);
  CHECK(description.inputs.front().type == TensorType{DType::i32, Shape{16}});
  CHECK(description.inputs.front().num_indices == 50257);
  CHECK(description.target == description.inputs.front().type);
  CHECK((description.num_train == 1000 && description.num_validation == 10));
}

TEST_CASE("batches of tokens are the same with any number of workers, from whatever batch they begin") {
  const DataFolder folder;
  const LoadedData data = load_data(token_config(folder.write("a.bin", token_bytes(counting(1000))), 10), 1);
  const Sampler sampler({.num_samples = data.train->size(), .batch_size = 4, .shuffle = true, .seed = 2});
  using Batches = std::map<std::int64_t, std::vector<std::int32_t>>;
  const auto read = [&](std::int64_t first, int workers) {
    Batches batches;
    BatchReader reader(
        *data.train, sampler,
        {.start = {first / sampler.num_batches(), first % sampler.num_batches()}, .num_workers = workers});
    for (std::int64_t i = first; i < 3 * sampler.num_batches(); ++i) {
      const HostBatch& batch = *reader.next();
      const auto* const tokens = reinterpret_cast<const std::int32_t*>(batch.fields[0]);
      batches[i].assign(tokens, tokens + batch.num_samples * 10);
    }
    return batches;
  };
  const Batches all = read(0, 1);
  CHECK(read(0, 3) == all);
  const std::int64_t middle = sampler.num_batches() + 5;
  CHECK(read(middle, 2) == Batches(all.find(middle), all.end()));
  CHECK(all.at(0) != all.at(sampler.num_batches()));
}

TEST_CASE("a change of any token of a small file changes what a resumed run knows it by") {
  const DataFolder folder;
  std::vector<std::uint16_t> tokens = counting(5000);
  const TokenFile before(folder.write("a.bin", token_bytes(tokens)));
  const std::uint32_t sum = before.checksum();
  tokens[3456] ^= 1;
  CHECK(TokenFile(folder.write("b.bin", token_bytes(tokens))).checksum() != sum);
  tokens[3456] ^= 1;
  CHECK(TokenFile(folder.write("c.bin", token_bytes(tokens))).checksum() == sum);
}

TEST_CASE("padded samples are documents, cut where they are longer, and what fills them up does not count") {
  const DataFolder folder;
  constexpr std::uint16_t first = 9, pad = 8;
  // A text in front of the first document, one of two samples, one without text, one that fits, and the last.
  const std::vector<std::uint16_t> tokens = {1, 2, first, 3, 4, 5, 6, 7, first, first, 1, 2, 3, first, 4};
  DataConfig config = token_config(folder.write("a.bin", token_bytes(tokens)), 4);
  config.document_token = first;
  config.pad_token = pad;
  const LoadedData data = load_data(config, 1);
  CHECK(data.description == describe_data(config, 1));
  CHECK(data.description.has_negative_targets);
  CHECK(data.description.held_bytes == 7 * 8);
  CHECK(held_bytes_of(*data.train) == 7 * 8);
  const std::vector<Window> expected = {
      {{1, 2, 8, 8}, {2, 9, -100, -100}},    {{9, 3, 4, 5}, {3, 4, 5, 6}}, {{6, 7, 8, 8}, {7, 9, -100, -100}},
      {{9, 8, 8, 8}, {9, -100, -100, -100}}, {{9, 1, 2, 3}, {1, 2, 3, 9}}, {{9, 4, 8, 8}, {4, -100, -100, -100}},
  };
  REQUIRE(data.train->size() == static_cast<std::int64_t>(expected.size()));
  const std::unique_ptr<SampleReader> reader = data.train->make_reader();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(i);
    for (const std::int64_t epoch : {0, 1}) {
      const Window window = window_of(*reader, *data.train, epoch, static_cast<std::int64_t>(i));
      CHECK(window.tokens == expected[i].tokens);
      CHECK(window.targets == expected[i].targets);
    }
  }
  config.ignored_target = 5;
  const LoadedData ignoring = load_data(config, 1);
  CHECK(window_of(*ignoring.train->make_reader(), *ignoring.train, 0, 0).targets ==
        std::vector<std::int32_t>{2, 9, 5, 5});

  // Masked, the last document of one token is a sample as well, and only text is guessed.
  config.ignored_target = -100;
  config.train = folder.write("b.bin", token_bytes(std::vector<std::uint16_t>{first, 3, 4, first}));
  config.mask_token = 7;
  const LoadedData masked = load_data(config, 1);
  REQUIRE(masked.train->size() == 2);
  const std::unique_ptr<SampleReader> masked_reader = masked.train->make_reader();
  for (std::int64_t epoch = 0; epoch < 300; ++epoch) {
    const Window text = window_of(*masked_reader, *masked.train, epoch, 0);
    CHECK((text.tokens[1] < pad && text.tokens[2] < pad));
    CHECK((text.tokens[0] == first && text.tokens[3] == pad && text.targets[0] == -100 && text.targets[3] == -100));
    CHECK((text.targets[1] == 3 || text.targets[2] == 4));
    const Window none = window_of(*masked_reader, *masked.train, epoch, 1);
    CHECK(none.tokens == std::vector<std::int32_t>{first, pad, pad, pad});
    CHECK(none.targets == std::vector<std::int32_t>(4, -100));
  }
}

TEST_CASE("documents of many samples are cut as a slow reader cuts them, also into two parts") {
  const DataFolder folder;
  std::vector<std::uint16_t> tokens(20011);
  std::uint32_t state = 7;
  for (std::uint16_t& token : tokens) token = static_cast<std::uint16_t>((state = state * 1664525 + 1013904223) >> 24);
  DataConfig config = token_config(folder.write("a.bin", token_bytes(tokens)), 50);
  config.classes = 256;
  config.document_token = 17;
  config.pad_token = 18;
  config.split = 0.25;
  const LoadedData data = load_data(config, 1);
  CHECK(data.description == describe_data(config, 1));
  CHECK(held_bytes_of(*data.train) + held_bytes_of(*data.validation) == data.description.held_bytes);
  const std::size_t cut = tokens.size() - static_cast<std::size_t>(std::llround(0.25 * 20011));
  const auto check = [&](const Dataset& part, std::size_t begin, std::size_t end) {
    const std::unique_ptr<SampleReader> reader = part.make_reader();
    std::int64_t sample = 0;
    while (begin + 1 < end) {
      std::size_t behind = begin + 1;
      while (behind < end && behind < begin + 50 && tokens[behind] != 17) ++behind;
      REQUIRE(sample < part.size());
      const Window window = window_of(*reader, part, 0, sample++);
      for (std::size_t i = 0; i < 50; ++i) {
        REQUIRE(window.tokens[i] == (begin + i < behind ? tokens[begin + i] : 18));
        REQUIRE(window.targets[i] == (begin + i < behind && begin + i + 1 < end ? tokens[begin + i + 1] : -100));
      }
      begin = behind;
    }
    CHECK(sample == part.size());
  };
  check(*data.train, 0, cut);
  check(*data.validation, cut, tokens.size());
}

TEST_CASE("tokens that keys name are of the vocabulary, and documents need a token to learn") {
  const DataFolder folder;
  DataConfig config = token_config(folder.write("a.bin", token_bytes(counting(30))), 4);
  config.document_token = 30;
  CHECK_THROWS_WITH(load_data(config, 1), Contains("data.document_token 30 is no token of a vocabulary of 30"));
  config.document_token = 3;
  CHECK(load_data(config, 1).train->size() == 6);
  config.pad_token = 30;
  CHECK_THROWS_WITH(load_data(config, 1), Contains("data.pad_token 30 is no token of a vocabulary of 30"));
  config.pad_token = 4;
  config.train = folder.write("b.bin", token_bytes(std::vector<std::uint16_t>{5}));
  CHECK_THAT(load_error(config), Contains("b.bin: 1 token; a document needs two"));
}
