#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

const std::string config = std::string(TRAINER_SOURCE_DIR) + "/configs/quickstart.yaml";

/// The integer behind `"key":` where `text` first holds it.
std::int64_t number_behind(const std::string& text, const std::string& key) {
  const std::size_t at = text.find("\"" + key + "\":");
  REQUIRE(at != std::string::npos);
  return std::strtoll(text.c_str() + at + key.size() + 3, nullptr, 10);
}

int plan(const std::string& file, const std::string& capacity, const std::string& set = "seed=1") {
  return run_trainer({"plan", file, "-q", "--capacity", capacity, set}).exit_code;
}

}  // namespace

TEST_CASE("the largest value that fit names is planned to fit, and the next one not to") {
  for (const std::string key : {"train.batch_size", "model.layers.0.conv2d.out"}) {
    const ProcessResult result = run_trainer({"fit", config, "--capacity", "12MiB", "--max", key, "--json"});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    const std::int64_t value = number_behind(result.out, "value");
    CHECK(plan(config, "12MiB", key + "=" + std::to_string(value)) == 0);
    CHECK(plan(config, "12MiB", key + "=" + std::to_string(value + 1)) == 4);
    CHECK(number_behind(result.out, "peak_reserved") <= 12 << 20);
    CHECK(number_behind(result.out, "lowest") == 1);
    CHECK(number_behind(result.out, "highest") > value);
    CHECK(number_behind(result.out, "num_planned") > 0);
    CHECK(number_behind(result.out, "num_unknown") == 0);
    CHECK_THAT(result.out, Contains("\"key\":\"" + key + "\"") && Contains("\"smaller_that_fail\":[") &&
                               Contains("\"next\":{\"value\":" + std::to_string(value + 1) + ",\"fits\":false"));
    const std::string text = run_trainer({"fit", config, "--capacity", "12MiB", "--max", key}).out;
    CHECK_THAT(text, Contains("Every " + key) && Contains(" up to "));
    CHECK_THAT(text, Contains(key + "=" + std::to_string(value)));
  }
}

TEST_CASE("the largest batch is found with all keys that follow from it, and by few plans where none does") {
  const ScratchFolder folder;
  const std::string file = folder / "c.yaml";
  const auto write = [&](int num_samples, const std::string& width, const std::string& further) {
    std::ofstream(file) << "data: {type: synthetic, shape: [20], classes: 10, samples: " << num_samples
                        << ", validation_samples: 100000}\nmodel: {layers: [linear: {out: " << width
                        << "}, relu, linear: {out: 10}]}\ntrain: {batch_size: 8, steps: 2, eval_batch_size: 8}\n"
                        << further;
  };
  const auto fit = [&](const std::string& capacity, const std::vector<std::string>& further = {}) {
    std::vector<std::string> words = {"fit",   file, "--gpu", "t4", "--capacity", capacity, "--max", "train.batch_size",
                                      "--json"};
    words.insert(words.end(), further.begin(), further.end());
    const ProcessResult result = run_trainer(words);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out)["maximum"];
  };
  const auto plan_of_batch = [&](std::int64_t batch_size, const std::string& capacity) {
    return run_trainer({"plan", file, "-q", "--gpu", "t4", "--capacity", capacity,
                        "train.batch_size=" + std::to_string(batch_size)})
        .exit_code;
  };
  write(600, "\"${train.batch_size}\"", "");
  const std::int64_t with_width = fit("1MiB")["value"];
  CHECK(plan_of_batch(with_width, "1MiB") == 0);
  CHECK(plan_of_batch(with_width + 1, "1MiB") == 4);

  // A batch that does not divide it is a mistake, though both ends of the range do.
  write(600, "300", "output: \"runs/${600 / train.batch_size}\"\n");
  const std::int64_t divisor = fit("1MiB")["value"];
  CHECK(600 % divisor == 0);
  CHECK(plan_of_batch(divisor, "1MiB") == 0);
  write(600, "300", "stages: [{name: a}, {name: b, train: {steps: \"${600 / train.batch_size}\"}}]\n");
  CHECK(fit("1MiB", {"--stage", "a"})["value"] == divisor);

  write(3000000, "30", "");
  const nlohmann::json many = fit("1GiB");
  CHECK(many["value"] > 2000000);
  CHECK(many["all_known_from"] == 1);
  CHECK(many["num_smaller_planned"] < 200);
  CHECK(plan_of_batch(many["value"], "1GiB") == 0);
  CHECK(plan_of_batch(many["value"].get<std::int64_t>() + 1, "1GiB") == 4);
}

TEST_CASE("what fits one stage is planned in those behind it, and told where one of them does not fit with it") {
  ScratchFolder folder;
  const std::string file = folder / "stages.yaml";
  std::ofstream(file) << "data: {type: synthetic, shape: [16, 16, 3], classes: 4, samples: 4096}\n"
                         "model:\n"
                         "  groups: {body: rest, head: [head]}\n"
                         "  layers: [conv2d: {out: 16, kernel: 3}, relu, conv2d: {out: 16, kernel: 3}, relu, "
                         "global_avgpool, linear: {out: 4, name: head}]\n"
                         "train: {batch_size: 2}\n"
                         "stages: [{name: head, freeze: {to: head}}, {name: all, unfreeze: all}, {name: end}]\n";
  const auto fit = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"fit",        file,   "--stage", "head",
                                      "--capacity", "8MiB", "--max",   "train.batch_size"};
    words.insert(words.end(), more.begin(), more.end());
    return run_trainer(words);
  };
  const ProcessResult inherited = fit({"--json"});
  REQUIRE(inherited.exit_code == 0);
  const std::string set = "stages.0.train.batch_size=" + std::to_string(number_behind(inherited.out, "value"));
  CHECK_THAT(inherited.out, Contains("the later stage all does not fit with " + set + ": it would reserve ") &&
                                Contains(" of 8.00 MiB.") && !Contains("stage end"));
  CHECK_THAT(std::regex_replace(fit({}).out, std::regex("\\s+"), " "),
             Contains("Note: the later stage all does not fit with " + set));
  CHECK(plan(file, "8MiB", set) == 4);
  // A stage that says otherwise does not take it over.
  const std::string own = "stages.1.train.batch_size=2";
  CHECK_THAT(fit({own, "--json"}).out, Contains("\"notes\":[]"));
  CHECK(run_trainer({"plan", file, "-q", "--capacity", "8MiB", own, set}).exit_code == 0);
  // The settings that are told as they are, too.
  CHECK_THAT(run_trainer({"fit", file, "--stage", "head", "--capacity", "8MiB", "--json", set}).out,
             Contains("the later stage all does not fit as it is: "));
  // Nothing stands behind the last one.
  const ProcessResult last =
      run_trainer({"fit", file, "--stage", "end", "--capacity", "8MiB", "--max", "train.batch_size", "--json"});
  CHECK(last.exit_code == 0);
  CHECK_THAT(last.out, Contains("\"notes\":[]"));
}

TEST_CASE("the longest sequence is found where data and model both take its length") {
  ScratchFolder folder;
  const std::string file = folder / "tokens.yaml";
  std::ofstream(file) << "data: {type: synthetic, sequence_length: 16, classes: 17, samples: 64}\n"
                         "model:\n"
                         "  file: models/gpt2.yaml\n"
                         "  with: {depth: 2, width: 12, heads: 3, vocabulary: 17, length: 16}\n"
                         "train: {batch_size: 2}\n";
  // Alone it ends at the places that the model has.
  const ProcessResult alone =
      run_trainer({"fit", file, "--capacity", "8MiB", "--max", "data.sequence_length", "--json"});
  INFO(alone.out << alone.err);
  REQUIRE(alone.exit_code == 0);
  CHECK(number_behind(alone.out, "value") == 16);
  const std::string both = "data.sequence_length=${model.with.length}";
  const ProcessResult result =
      run_trainer({"fit", file, both, "--capacity", "8MiB", "--max", "model.with.length", "--json"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const std::int64_t value = number_behind(result.out, "value");
  CHECK(value > 100);
  CHECK(value < 10000);
  const auto plan_of = [&](std::int64_t length) {
    const std::string text = std::to_string(length);
    return run_trainer(
               {"plan", file, "-q", "--capacity", "8MiB", "data.sequence_length=" + text, "model.with.length=" + text})
        .exit_code;
  };
  CHECK(plan_of(value) == 0);
  CHECK(plan_of(value + 1) == 4);
}

TEST_CASE("the data set bounds the batch where memory does not, and fit says which it is") {
  ScratchFolder folder;
  const std::string file = folder / "small.yaml";
  std::ofstream(file) << "data: {type: synthetic, shape: [4], classes: 3, samples: 360}\n"
                         "model: {layers: [linear: {out: 3}]}\ntrain: {batch_size: 1000}\n";
  const auto said = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"fit", file, "--capacity", "1GiB"});
    const ProcessResult result = run_trainer(words);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    return std::regex_replace(result.out, std::regex("\\s+"), " ");
  };
  for (const char* range : {"", "=1..9000"}) {
    const std::string key = std::string("train.batch_size") + range;
    CHECK_THAT(said({"--max", key}),
               Contains("up to 360 fits") &&
                   Contains("It is every training sample of the data set: that bounds it, not memory.") &&
                   Contains("train.batch_size=360") && !Contains("9000") && !Contains("1000"));
    CHECK_THAT(said({"--max", key, "--json"}),
               Contains("\"value\":360,") && Contains("\"highest\":360,\"bounded_by_data\":true"));
  }
  CHECK_THAT(said({"--max", "train.batch_size=1..100", "--json"}), Contains("\"bounded_by_data\":false"));
  const std::string note = "train.batch_size is 1000, and the data set has 360 training samples: every batch has 360.";
  CHECK_THAT(said({}), Contains("Note: " + note) && Contains("360 samples an update"));
  CHECK_THAT(said({"--max", "model.layers.0.linear.out=3..3"}), Contains("Note: " + note));
  CHECK_THAT(said({"--json"}), Contains("\"batch_size\":360,\"asked_batch_size\":1000"));
  const ProcessResult beyond = run_trainer({"fit", file, "--max", "train.batch_size=400..500"});
  CHECK(beyond.exit_code == 2);
  CHECK_THAT(beyond.err, Contains("360 training samples") && Contains("train.batch_size=1..360"));
}

TEST_CASE("where no larger value can be, fit says so and not that memory bounds nothing") {
  const ProcessResult result =
      run_trainer({"fit", config, "--capacity", "1GiB", "--max", "model.layers.11.linear.out=10..40"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("up to 10 fits") && Contains("None of the larger values, up to 40, can be.") &&
                             !Contains("memory does not bound it"));
}

TEST_CASE("the largest value of a model's parameter is sought among those that it takes") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "trainer-fit-parameter-test";
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "model.yaml").string();
  const auto fit = [&](const std::string& model, const std::string& capacity, const std::string& key) {
    std::ofstream(file) << "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64}\nmodel: " << model
                        << "\ntrain: {batch_size: 4}\n";
    const ProcessResult result = run_trainer({"fit", file, "--capacity", capacity, "--max", key, "--json"});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return number_behind(result.out, "value");
  };
  // Whose width 4 divides.
  const std::int64_t width =
      fit("{file: models/mobilenetv2.yaml, with: {classes: 10, stem: cifar}}", "24MiB", "model.with.width");
  CHECK(width % 4 == 0);
  CHECK(plan(file, "24MiB", "model.with.width=" + std::to_string(width)) == 0);
  CHECK(plan(file, "24MiB", "model.with.width=" + std::to_string(width + 4)) == 4);
  CHECK(fit("{file: models/resnet.yaml, with: {classes: 10, stem: cifar, width: 4}}", "1GiB", "model.with.depth") ==
        101);
  std::filesystem::remove_all(folder);
}

TEST_CASE("where no value or combination fits, fit exits with 4 and says so") {
  const ProcessResult none = run_trainer({"fit", config, "--capacity", "1KiB", "--max", "train.batch_size=1..9"});
  CHECK(none.exit_code == 4);
  CHECK_THAT(none.out, Contains("No train.batch_size from 1 to 9 fits 1.00 KiB (--capacity)."));
  const ProcessResult choices = run_trainer({"fit", config, "--capacity", "1KiB"});
  CHECK(choices.exit_code == 4);
  CHECK_THAT(choices.out, Contains("Nothing was found that keeps 64 samples an update and fits"));
}

TEST_CASE("what fit writes is a configuration that fits, whole and never over another file unasked") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "trainer-fit-test";
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "small.yaml").string();
  std::filesystem::remove(file);
  REQUIRE(plan(config, "5MiB") == 4);
  const ProcessResult written = run_trainer({"fit", config, "--capacity", "5MiB", "--write", file});
  INFO(written.out << written.err);
  REQUIRE(written.exit_code == 0);
  CHECK_THAT(written.out, Contains("trainer run " + file));
  CHECK(plan(file, "5MiB") == 0);
  const ProcessResult refused = run_trainer({"fit", config, "--capacity", "5MiB", "--write", file});
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.err, Contains("exists; name another file, or replace it with --overwrite"));
  CHECK(run_trainer({"fit", config, "--capacity", "5MiB", "--write", file, "--overwrite"}).exit_code == 0);
  CHECK(run_trainer({"fit", config, "--capacity", "5MiB", "--write", file, "--pick", "99"}).exit_code == 2);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a key that no integers are searched for is refused with what it takes, or the nearest key") {
  struct Mistake {
    const char *asked, *told;
  };
  for (const Mistake mistake : {Mistake{"train.bathc_size", "did you mean 'train.batch_size'?"},
                                {"batch_size", "did you mean 'train.batch_size'?"},
                                {"optimizer.lr", "takes a number"},
                                {"train.amp", "takes one of off, fp16, bf16"},
                                {"train", "is a section"},
                                {"model.layers.0.conv2d.oot", "did you mean 'model.layers.0.conv2d.out'?"},
                                {"model.layers", "is a list of layers"},
                                {"train.batch_size=9..3", "write LOWEST..HIGHEST"},
                                {"train.batch_size=many", "write LOWEST..HIGHEST"}}) {
    const ProcessResult result = run_trainer({"fit", config, "--max", mistake.asked});
    INFO(mistake.asked);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains(mistake.told));
  }
}
