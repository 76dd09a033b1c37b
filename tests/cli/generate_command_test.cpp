#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// A folder with a run of a small GPT on a text of letters that follow each other.
struct WriterFolder : ScratchFolder {
  WriterFolder() {
    std::ofstream text(*this / "letters.txt", std::ios::binary);
    for (int i = 0; i < 400; ++i) text << "abcdefghij ";
    text.close();
    std::ofstream config(*this / "gpt.yaml");
    config << "name: writer\ndevice: {type: cpu, threads: 1}\n"
              "data: {type: text, root: "
           << path() << ", train: letters.txt, split: 0.1, sequence_length: 16, cache_folder: " << path()
           << "}\n"
              "model: {file: models/gpt2.yaml, with: {depth: 1, width: 16, heads: 2, vocabulary: 256, length: 40}}\n"
              "optimizer: {type: adamw, lr: 0.01}\ntrain: {batch_size: 8, steps: 400}\noutput: "
           << *this / "run"
           << "\n";
    config.close();
    const ProcessResult run = run_trainer({"run", *this / "gpt.yaml", "-q"});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
  }
  std::string config() const { return *this / "gpt.yaml"; }
  std::string run() const { return *this / "run"; }
};

}  // namespace

TEST_CASE("a text is written by a run's model, the same for the same seed") {
  const WriterFolder folder;
  const ProcessResult greedy =
      run_trainer({"generate", folder.run(), "--prompt", "cde", "--tokens", "20", "--temperature", "0"});
  INFO(greedy.err);
  REQUIRE(greedy.exit_code == 0);
  CHECK(greedy.out == "cdefghij abcdefghij abc\n");
  CHECK_THAT(greedy.err, Contains("3 tokens of prompt") && Contains("20 more") && Contains("reserved 2.00 MiB"));

  const std::vector<std::string> words = {"generate", folder.run(), "--prompt", "a", "--tokens", "30", "-q"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    const ProcessResult result = run_trainer(more);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    return result.out;
  };
  const std::string first = with({"--temperature", "3", "--seed", "1"});
  CHECK(first == with({"--temperature", "3", "--seed", "1"}));
  CHECK(first != with({"--temperature", "3", "--seed", "2"}));
  CHECK(with({"--temperature", "0", "--stop", "hi", "--stop", "j"}) == "abcdefg\n");
  CHECK(with({"--top-k", "1"}) == with({"--temperature", "0"}));
  CHECK(with({"--top-p", "0"}) == with({"--temperature", "0"}));
  const std::string two = with({"--temperature", "3", "--seed", "1", "--samples", "2"});
  CHECK(two.starts_with(first + "\n---\na"));
  CHECK(two.size() > 2 * first.size());

  // As the prompt of a file, and as numbers; from a configuration and a checkpoint.
  std::ofstream(folder / "prompt.txt") << "a";
  const std::string checkpoint = folder.run() + "/checkpoints/latest";
  for (const std::vector<std::string>& prompt :
       {std::vector<std::string>{"--prompt-file", folder / "prompt.txt"}, {"--prompt-tokens", "97"}}) {
    std::vector<std::string> others = {"generate", folder.config(), "--weights", checkpoint, "--tokens", "30",
                                       "-q",       "--temperature", "0"};
    others.insert(others.end(), prompt.begin(), prompt.end());
    CHECK(run_trainer(others).out == with({"--temperature", "0"}));
  }
}

TEST_CASE("each token of a text is told as an event") {
  const WriterFolder folder;
  const ProcessResult result =
      run_trainer({"generate", folder.run(), "--prompt", "ab", "--tokens", "5", "--temperature", "0", "--json"});
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty());
  const std::vector<nlohmann::json> events = events_of(result.out);
  REQUIRE(events.size() == 6);
  std::string text;
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(events[i]["event"] == "token");
    CHECK(events[i]["token"] == static_cast<int>('c' + i));
    text += events[i]["text"].get<std::string>();
  }
  CHECK(text == "cdefg");
  CHECK(events[5]["event"] == "text");
  CHECK(events[5]["tokens"] == 5);
  CHECK(events[5]["prompt_tokens"] == 2);
  // Keys and values of six tokens, 16 numbers each.
  CHECK(events[5]["cache_bytes"] == 6 * 2 * 16 * 4);
}

TEST_CASE("what a text takes is planned, and what does not fit is told before it begins") {
  const WriterFolder folder;
  const ProcessResult planned = run_trainer({"plan", folder.config(), "--generate", "40", "--json"});
  INFO(planned.err);
  REQUIRE(planned.exit_code == 0);
  const nlohmann::json plan = events_of(planned.out).at(0);
  CHECK(plan["event"] == "text_plan");
  CHECK(plan["cache_bytes_a_token"] == 2 * 16 * 4);
  CHECK(plan["cache_bytes"] == 39 * 2 * 16 * 4);
  CHECK(plan["longest_text"] == 40);
  CHECK(plan["longest_text_that_fits"] == 40);
  CHECK_THAT(
      run_trainer({"plan", folder.config(), "--generate", "40"}).out,
      Contains("keys and values") && Contains("Every text fits that the model has places for: up to 40 tokens."));
  const ProcessResult written = run_trainer({"generate", folder.run(), "--prompt", "ab", "--tokens", "38", "--json"});
  CHECK(events_of(written.out).back()["memory"]["peak_reserved"] == plan["peak_reserved"]);

  CHECK(run_trainer({"plan", folder.config(), "--generate", "40", "--capacity", "64KiB", "-q"}).exit_code == 4);
  const ProcessResult refused =
      run_trainer({"generate", folder.run(), "memory.limit=64KiB", "--prompt", "ab", "--tokens", "5"});
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.out, Contains("Does not fit the capacity of 64.00 KiB (memory.limit)") &&
                              Contains("Not even a text of one token fits."));
}

TEST_CASE("wrong words about a text are told with what is right") {
  const WriterFolder folder;
  const auto told = [&](std::vector<std::string> words, int exit_code) {
    words.insert(words.begin(), "generate");
    const ProcessResult result = run_trainer(words);
    INFO(result.out << result.err);
    CHECK(result.exit_code == exit_code);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(told({folder.run()}, 2), Contains("prompt"));
  CHECK_THAT(told({folder.run(), "--prompt", ""}, 2), Contains("prompt"));
  CHECK_THAT(told({folder.run(), "--prompt", "a", "--prompt-tokens", "1"}, 2), Contains("prompt"));
  CHECK_THAT(told({folder.run(), "--prompt", "a", "--tokens", "40"}, 2), Contains("places for 40 tokens"));
  CHECK_THAT(told({folder.run(), "--prompt-tokens", "256", "--tokens", "4"}, 2),
             Contains("token 256 is none of the model's 256"));
  CHECK_THAT(told({folder.config(), "--prompt", "a"}, 2), Contains("names no weights") && Contains("--weights"));
  CHECK_THAT(told({folder.path(), "--prompt", "a"}, 6), Contains("not the folder of a run"));
  CHECK_THAT(told({folder.run(), "--prompt-file", folder / "absent.txt"}, 6), Contains("absent.txt"));
  CHECK_THAT(told({folder.config(), "--weights", folder / "absent", "--prompt", "a"}, 6), Contains("absent"));
  CHECK_THAT(told({folder.config(), "model.with.width=8", "--weights", folder.run(), "--prompt", "a"}, 6),
             Contains("do not match: 16 of 16 tensors"));
  CHECK_THAT(told({"configs/quickstart.yaml", "--weights", folder.run(), "--prompt-tokens", "1"}, 2),
             Contains("layer"));
  std::ofstream(folder / "tokenizer.json") << "{}";
  CHECK_THAT(told({folder.run(), "--tokenizer", folder / "tokenizer.json", "--prompt", "a"}, 6),
             Contains("tokenizer.json"));
}
