#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

constexpr int text_window = 16;

/// A run of a small GPT on a text whose letters follow each other in several ways.
struct TextsFolder : ScratchFolder {
  explicit TextsFolder(int steps = 60) {
    std::ofstream text(*this / "train.txt", std::ios::binary);
    for (int i = 0; i < 500; ++i)
      text << (i % 3 == 0 ? "the cat sat. " : i % 5 == 0 ? "a dog ran\n" : "no one saw it, ");
    text.close();
    std::ofstream yaml(*this / "gpt.yaml");
    yaml << "name: texts\ndevice: {type: cpu, threads: 1}\ndata: {type: text, root: " << path()
         << ", train: train.txt, split: 0.1, sequence_length: " << text_window << ", cache_folder: " << path()
         << "}\nmodel: {file: models/gpt2.yaml, with: {depth: 1, width: 16, heads: 2, vocabulary: 256, length: 40}}\n"
            "optimizer: {type: adamw, lr: 0.01}\ntrain: {batch_size: 8, steps: "
         << steps << "}\noutput: " << run() << "\n";
    yaml.close();
    done({"run", config_file(), "-q"});
  }
  std::string run() const { return *this / "run"; }
  std::string config_file() const { return *this / "gpt.yaml"; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

  static ProcessResult done(const std::vector<std::string>& words, int exit_code = 0) {
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == exit_code);
    return result;
  }
  static std::vector<nlohmann::json> told(std::vector<std::string> words, int exit_code = 0) {
    words.insert(words.begin(), "predict");
    words.insert(words.end(), {"--json", "-q"});
    return events_of(done(words, exit_code).out);
  }
};

std::string some_text(std::size_t size) {
  std::string text;
  for (int i = 0; text.size() < size; ++i) text += i % 2 == 0 ? "the cat saw it. " : "a dog sat\n";
  return text.substr(0, size);
}

}  // namespace

TEST_CASE("a text's loss is that of its evaluation, whatever the batch and whatever stands beside it") {
  const TextsFolder folder;
  const std::string text = folder.write("val.txt", some_text(9 * text_window + 1));
  const nlohmann::json evaluated =
      events_of(folder.done({"eval", folder.run(), "--data", text, "--json", "--worst", "0"}).out).back();
  REQUIRE(evaluated["samples"] == 9);
  const std::vector<nlohmann::json> alone = folder.told({folder.run(), text});
  REQUIRE(alone.size() == 2);
  CHECK(alone[0]["input"] == text);
  CHECK(alone[0]["tokens"] == 9 * text_window + 1);
  const double loss = alone[0]["loss"];
  CHECK(loss == Approx(evaluated["loss"].get<double>()).margin(1e-5));
  CHECK(alone[0]["perplexity"].get<double>() == Approx(std::exp(loss)).epsilon(1e-5));
  CHECK(alone[1]["inputs"] == 1);
  CHECK(alone[1]["tokens"] == 9 * text_window + 1);
  CHECK(alone[1]["batch_size"] == 1024 / text_window);

  const std::string other = folder.write("other.txt", some_text(3 * text_window)), one = folder.write("one.txt", "t");
  for (const char* batch : {"1", "3", "7", "64"}) {
    const std::vector<nlohmann::json> events =
        folder.told({folder.run(), other, text, one, other, text, "--batch", batch});
    REQUIRE(events.size() == 6);
    for (const std::size_t i : {1, 4}) {
      CHECK(events[i]["loss"].get<double>() == Approx(loss).margin(1e-5));
      CHECK(events[i]["next"][0]["token"] == alone[0]["next"][0]["token"]);
    }
    CHECK(events[2]["tokens"] == 1);
    CHECK(events[2]["loss"].is_null());
    CHECK(events[2]["next"].size() == 1);
    CHECK(events[5]["inputs"] == 5);
    CHECK(events[5]["tokens"] == 2 * (9 * text_window + 1) + 2 * 3 * text_window + 1);
  }
}

TEST_CASE("a text's loss is what the probabilities behind each of its beginnings say") {
  const TextsFolder folder;
  const std::string text = "a dog sat. the ";
  REQUIRE(text.size() <= text_window);
  std::string lines;
  for (std::size_t size = 1; size <= text.size(); ++size) lines += text.substr(0, size) + "\n";
  const std::vector<nlohmann::json> events =
      folder.told({folder.run(), folder.write("beginnings.txt", lines), "--lines", "--top", "256"});
  REQUIRE(events.size() == text.size() + 1);
  double sum = 0;
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const nlohmann::json& told = events[size - 1];
    CHECK(told["input"] == folder / "beginnings.txt:" + std::to_string(size));
    CHECK(told["tokens"] == size);
    if (size > 1) CHECK(told["loss"].get<double>() == Approx(sum / static_cast<double>(size - 1)).margin(1e-5));
    REQUIRE(told["next"].size() == 256);
    double all = 0, before = 1;
    for (const nlohmann::json& next : told["next"]) {
      const double probability = next["probability"];
      CHECK(probability <= before);
      before = probability;
      all += probability;
      if (size < text.size() && next["token"] == static_cast<int>(text[size])) sum -= std::log(probability);
    }
    CHECK(all == Approx(1).margin(1e-4));
  }
}

TEST_CASE("the likeliest token is the one that is written, and keys say how many tokens are seen at once") {
  const TextsFolder folder(200);
  folder.done({"export", folder.run(), "--to", folder / "exported", "-q"});
  std::filesystem::remove(folder / "train.txt");
  for (const std::string begin : {"the c", "no one s", "a d"}) {
    const std::string file = folder.write("begin.txt", begin);
    const std::string written =
        folder.done({"generate", folder.run(), "--prompt", begin, "--temperature", "0", "--tokens", "1", "-q"}).out;
    std::vector<std::string> rows;
    for (const std::string& model : {folder.run(), folder / "exported"})
      for (const char* seen : {"16", "8", "40"}) {
        const nlohmann::json told = folder.told({model, file, std::string("data.sequence_length=") + seen}).front();
        CHECK(begin + told["next"][0]["text"].get<std::string>() + "\n" == written);
        CHECK(told["tokens"] == begin.size());
        rows.push_back(told.dump());
      }
    CHECK(rows[0] == rows[3]);
  }
  const ProcessResult longer =
      run_trainer({"predict", folder / "exported", folder / "begin.txt", "data.sequence_length=41"});
  CHECK(longer.exit_code == 2);
  CHECK_THAT(longer.err, Contains("40 places"));
  // What a run was given is no file, of which a line could be shown.
  const ProcessResult of_run = run_trainer({"predict", folder.run(), folder / "begin.txt", "data.sequence_length=41"});
  CHECK(of_run.exit_code == 2);
  CHECK_THAT(of_run.err, Contains("40 places") && !Contains("state.json") && !Contains("^"));
}

TEST_CASE("rows of texts are told with what is wrong, to the end") {
  const TextsFolder folder(5);
  const std::string file = folder.write("a.txt", "the cat\r\n\na\n");
  const ProcessResult rows = run_trainer({"predict", folder.run(), file, folder / "no.txt", "--lines", "--top", "2"});
  CHECK(rows.exit_code == 6);
  CHECK_THAT(rows.out, Catch::StartsWith("input,tokens,loss,perplexity,next,probability,next_2,probability_2,error\n" +
                                         file + ":1,7,"));
  CHECK_THAT(rows.out, Contains("\n" + file + ":2,,,,,,,,") && Contains("is empty") && Contains("no.txt"));
  CHECK_THAT(rows.err, Contains("windows of 16 tokens") && Contains("4 texts of 8 tokens") && Contains("tokens/s") &&
                           Contains("2 with an error"));
}

TEST_CASE("what texts take was planned") {
  const TextsFolder folder(5);
  const std::string text = folder.write("val.txt", some_text(500));
  for (const char* batch : {"auto", "3"}) {
    const nlohmann::json plan =
        nlohmann::json::parse(folder.done({"plan", folder.run(), "--predict", batch, "--json"}).out);
    const nlohmann::json end = folder.told({folder.run(), text, "--batch", batch}).back();
    CHECK(plan["fits"] == true);
    CHECK(plan["batch_size"] == end["batch_size"]);
    CHECK(plan["parameter_bytes"] == end["parameter_bytes"]);
    for (const char* peak : {"peak_requested", "peak_allocated", "peak_reserved"})
      CHECK(plan[peak] == end["memory"][peak]);
  }
  CHECK_THAT(folder.done({"plan", folder.run(), "--predict", "auto"}).out,
             Contains("batches of 64 windows of 16 tokens"));
}

TEST_CASE("memory does not grow with texts and their windows") {
  const TextsFolder folder(5);
  const auto peak_of = [&](std::size_t num_lines) {
    std::string lines;
    for (std::size_t i = 0; i < num_lines; ++i) lines += some_text(i % 90 + 1).substr(0, 9) + "\n";
    const ProcessResult result = run_trainer({"predict", folder.run(), folder.write("lines.txt", lines), "--lines",
                                              "-q", "-o", folder / "rows.csv", "--overwrite"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return result.peak_resident;
  };
  const std::int64_t few = peak_of(500), many = peak_of(30000);
  INFO(few << " and " << many);
  CHECK(many < few + (std::int64_t{4} << 20));
}

TEST_CASE("files of tokens are texts of a model of tokens, told by numbers") {
  const ScratchFolder folder;
  std::string tokens;
  for (int i = 0; i < 400; ++i) tokens += {static_cast<char>(i % 7), '\0'};
  std::filesystem::create_directory(folder / "data");
  std::ofstream(folder / "data/a.bin", std::ios::binary) << tokens;
  std::ofstream(folder / "data/a.txt") << "no tokens";
  std::ofstream(folder / "tokens.yaml")
      << "device: {type: cpu, threads: 1}\ndata: {type: tokens, train: " << folder / "data/a.bin"
      << ", split: 0.2, sequence_length: 8, classes: 7}\n"
         "model: {layers: [{embedding: {num: 7, dim: 8}}, {linear: {out: 7}}]}\noptimizer: {type: adamw, lr: 0.1}\n"
         "train: {batch_size: 8, steps: 60}\noutput: "
      << folder / "run"
      << "\n";
  TextsFolder::done({"run", folder / "tokens.yaml", "-q"});
  const std::vector<nlohmann::json> events = TextsFolder::told({folder / "run", folder / "data"});
  REQUIRE(events.size() == 2);
  CHECK(events[0]["tokens"] == 400);
  CHECK(events[0]["loss"].get<double>() < 0.1);
  CHECK(events[0]["next"][0]["token"] == 400 % 7);
  CHECK(events[0]["next"][0]["text"].is_null());
  CHECK_THAT(TextsFolder::done({"predict", folder / "run", folder / "data/a.bin", "-q"}).out, Contains(",1,0.9"));
  const ProcessResult lines = run_trainer({"predict", folder / "run", folder / "data/a.bin", "--lines"});
  CHECK(lines.exit_code == 2);
  CHECK_THAT(lines.err, Contains("have no lines"));
}

TEST_CASE("a model that sees what it is to guess, and options of other models, are refused before anything is read") {
  const TextsFolder folder(5);
  const std::string text = folder.write("a.txt", "the cat"), rows = folder / "rows.csv";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--masks", folder / "masks"}, {"model.layers.0.embedding.dim=9"}}) {
    std::vector<std::string> all = {"predict", folder.run(), text, "-o", rows};
    all.insert(all.end(), words.begin(), words.end());
    CHECK(run_trainer(all).exit_code == 2);
    CHECK(!std::filesystem::exists(rows));
  }
  std::ofstream(folder / "bert.yaml")
      << "name: guesser\ndevice: {type: cpu, threads: 1}\ndata: {type: text, root: " << folder.path()
      << ", train: train.txt, split: 0.1, sequence_length: 16, mask_token: 1, cache_folder: " << folder.path()
      << "}\nmodel:\n  layers:\n    - embedding: {num: 256, dim: 8}\n    - linear: {out: 24}\n    - attention: {heads: "
         "2}\n    - linear: {out: "
         "256}\n"
         "train: {batch_size: 8, steps: 3}\noutput: "
      << folder / "bert"
      << "\n";
  // A stage that predicts with it, before anything is trained.
  const std::string stages = "stages=[{name: a}, {predict: {inputs: [" + text + "], output: " + rows + "}}]";
  const ProcessResult staged = run_trainer({"run", folder / "bert.yaml", stages});
  CHECK(staged.exit_code == 2);
  CHECK_THAT(staged.err, Contains("data.mask_token"));
  CHECK(!std::filesystem::exists(folder / "bert/checkpoints"));

  folder.done({"run", folder / "bert.yaml", "-q"});
  folder.done({"export", folder / "bert", "--to", folder / "bert-exported", "-q"});
  for (const std::string model : {"bert", "bert-exported"}) {
    const std::string said = model == "bert" ? "data.mask_token" : "sees the tokens behind each";
    const ProcessResult refused = run_trainer({"predict", folder / model, text, "-o", rows});
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Contains(said));
    CHECK(!std::filesystem::exists(rows));
    const ProcessResult planned = run_trainer({"plan", folder / model, "--predict", "2"});
    CHECK(planned.exit_code == 2);
    CHECK_THAT(planned.err, Contains(said));
  }
}

TEST_CASE("a stage tells of the lines of a text by what was trained") {
  const TextsFolder folder(5);
  const std::string text = folder.write("a.txt", "the cat\na dog\n"), rows = folder / "rows.csv";
  const std::string stage = "{predict: {inputs: [" + text + "], output: " + rows + ", lines: true, top: 2}}";
  folder.done(
      {"run", folder.config_file(), "stages=[{name: a}, " + stage + "]", "output=" + (folder / "staged"), "-q"});
  std::ifstream file(rows, std::ios::binary);
  const std::string told{std::istreambuf_iterator<char>(file), {}};
  CHECK(told ==
        folder.done({"predict", folder / "staged/checkpoints/step-00000005", text, "--lines", "--top", "2", "-q"}).out);
  CHECK_THAT(told, Contains(text + ":2,5,"));
  const ProcessResult refused = run_trainer(
      {"run", "configs/quickstart.yaml", "output=" + (folder / "digits"),
       "stages=[{name: a}, {predict: {inputs: [" + text + "], output: " + (folder / "x.csv") + ", lines: true}}]"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("lines are of texts"));
}
