#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

const std::vector<std::string> tiny = {
    "bench", "configs/quickstart.yaml", "train.batch_size=17", "device={type: cpu, threads: 1}", "--steps", "3"};

ProcessResult bench_tiny(const ScratchFolder& cache, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = tiny;
  words.insert(words.end(), more.begin(), more.end());
  return run_trainer(words, {.environment = {{"XDG_CACHE_HOME", cache.path()}}});
}

ProcessResult run_with(const ScratchFolder& cache, const std::vector<std::string>& words, int terminal_columns = 0) {
  return run_trainer(words, {.environment = {{"XDG_CACHE_HOME", cache.path()}}, .terminal_columns = terminal_columns});
}

/// "trainer bench digit_images.yaml --data", briefly, with further words.
ProcessResult bench_images(const ScratchFolder& cache, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"bench", "tests/runs/digit_images.yaml", "--data", "--seconds", "0.05"};
  words.insert(words.end(), more.begin(), more.end());
  return run_with(cache, words);
}

}  // namespace

TEST_CASE("bench tells a step's time in one object whose parts add up") {
  const ScratchFolder cache;
  const ProcessResult result = bench_tiny(cache, {"--json"});
  REQUIRE(result.exit_code == 0);
  const auto event = nlohmann::json::parse(result.out);
  CHECK(event["event"] == "bench");
  CHECK(event["steps"] == 3);
  CHECK(event["batch_size"] == 17);
  CHECK(event["rates"]["origin"] == "assumed");
  CHECK(event["predicted_seconds"] > 0);
  const double ops = event["op_seconds"];
  CHECK(ops > 0);
  for (const char* table : {"layers", "ops"}) {
    double sum = 0;
    std::int64_t num_calls = 0;
    for (const auto& row : event[table]) {
      sum += row["seconds"].get<double>();
      num_calls += row["calls"].get<std::int64_t>();
      CHECK(row["forward_seconds"].get<double>() + row["backward_seconds"].get<double>() +
                row["recompute_seconds"].get<double>() + row["update_seconds"].get<double>() ==
            Approx(row["seconds"].get<double>()));
      CHECK(row["flops"].is_number_integer());
      CHECK(row["bound_seconds"] > 0);
    }
    CHECK(sum == Approx(ops));
    CHECK(num_calls > 5);
  }
  CHECK(std::filesystem::is_empty(cache.path()));  // nothing is stored
}

TEST_CASE("bench prints tables, and warns of a file of rates that it cannot use") {
  const ScratchFolder cache;
  const ProcessResult json = bench_tiny(cache, {"--json"});
  REQUIRE(json.exit_code == 0);
  CHECK(json.err.empty());
  std::string file;
  for (const char letter : nlohmann::json::parse(json.out)["device"]["name"].get<std::string>()) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (is_plain || (!file.empty() && file.back() != '-')) file += is_plain ? letter : '-';
  }
  file = cache / ("trainer/rates-" + file + ".json");
  std::filesystem::create_directories(cache / "trainer");
  std::ofstream(file) << "{";
  const ProcessResult damaged = bench_tiny(cache);
  CHECK(damaged.exit_code == 0);
  CHECK_THAT(damaged.err, Contains("warning") && Contains(file) && Contains("trainer bench"));
  CHECK_THAT(damaged.out, Contains("measured") && Contains("predicted") && Contains("Layers") && Contains("of bound"));
}

TEST_CASE("bench --data tells how fast images are prepared, and plan sets it against the steps") {
  const ScratchFolder cache;
  const std::vector<std::string> plan = {"plan", "tests/runs/digit_images.yaml"};
  const ProcessResult before = run_with(cache, plan);
  CHECK(before.exit_code == 0);
  CHECK_THAT(before.out, Contains("trainer bench tests/runs/digit_images.yaml --data'"));
  const ProcessResult result = bench_images(cache, {"--json"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const auto event = nlohmann::json::parse(result.out);
  CHECK(event["event"] == "bench");
  const auto& data = event["data"];
  CHECK(data["train_samples"] == 240);
  CHECK(data["distinct_samples"].get<int>() > 0);
  CHECK(data["distinct_samples"].get<int>() <= 240);
  CHECK(data["sample_bytes"] == 24 * 24 * 3 + 4);
  CHECK(data["one_thread"]["threads"] == 1);
  CHECK(data["one_thread"]["seconds"] >= 0.05);
  CHECK(data["all_threads"]["threads"] == 3);
  double stages = 0;
  for (const char* stage : {"read", "decode", "transform", "copy"}) {
    CHECK(data["stage_seconds"][stage] > 0);
    stages += data["stage_seconds"][stage].get<double>();
  }
  // A thread has little else to do.
  CHECK(stages < 3 / data["one_thread"]["samples_per_second"].get<double>());
  CHECK(std::filesystem::exists(event["kept"].get<std::string>()));

  std::vector<std::string> words = plan;
  words.emplace_back("--json");
  const auto planned = nlohmann::json::parse(run_with(cache, words).out);
  CHECK(planned["data"]["samples_per_second"] == data["all_threads"]["samples_per_second"]);
  CHECK(planned["data"]["needed_samples_per_second"] == planned["samples_per_second"]);
  CHECK_THAT(run_with(cache, plan).out, Contains("3 threads of this machine prepare ") && !Contains("--data"));
  // Other transforms are another matter, and so are other threads.
  for (const char* other : {"data.transforms.train=[random_crop: {size: 24, padding: 4}]", "data.workers=2"}) {
    INFO(other);
    CHECK_THAT(run_with(cache, {plan[0], plan[1], other}).out, Contains("--data") && !Contains("of this machine"));
  }
  // What cannot be used is told and measured anew.
  std::ofstream(event["kept"].get<std::string>()) << "{";
  const ProcessResult damaged = run_with(cache, plan);
  CHECK(damaged.exit_code == 0);
  CHECK_THAT(damaged.err, Contains("warning") && Contains(event["kept"].get<std::string>()));
  CHECK(bench_images(cache).exit_code == 0);
  CHECK(run_with(cache, plan).err.empty());
}

TEST_CASE("bench --data reads whatever data there is, and shows it in a terminal's width") {
  const ScratchFolder cache;
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {},
           {"data.transforms={train: [random_crop: {size: 8, padding: 1}]}", "data.workers=2"},
           {"data={type: csv, train: datasets/digits.csv.gz, header: false}", "model.layers=[linear: {out: 10}]"},
           {"data={type: synthetic, shape: [8, 8, 1], classes: 10, samples: 100}"}}) {
    std::vector<std::string> words = {"bench", "configs/quickstart.yaml", "--data", "--seconds", "0.02"};
    words.insert(words.end(), more.begin(), more.end());
    INFO((more.empty() ? std::string() : more.front()));
    const ProcessResult result = run_with(cache, words);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, Contains("1 thread ") && Contains("read ") && !Contains("decode"));
    CHECK(result.err.empty());
    // A plan says nothing of it before it is measured, as there are no image files.
    words = {"plan", "configs/quickstart.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    CHECK_THAT(run_with(cache, words).out, Contains("\nData: needs "));
    CHECK_THAT(run_with(ScratchFolder(), words).out, !Contains("Data: "));
  }
}

TEST_CASE("bench --data refuses what it cannot read, with the usual exit codes") {
  const ScratchFolder cache;
  const ProcessResult no_config = run_with(cache, {"bench", "--data"});
  CHECK(no_config.exit_code == 2);
  CHECK_THAT(no_config.err, Contains("a CONFIG"));
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--steps", "2"}, {"--seconds", "0"}, {"--seconds", "many"}, {"--seconds", "nan"}, {"--seconds", "1e9"}}) {
    std::vector<std::string> words = {"bench", "configs/quickstart.yaml", "--data"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    INFO(wrong.front() << " " << wrong.back());
    CHECK(run_with(cache, words).exit_code == 2);
  }
  CHECK(run_with(cache, {"bench", "configs/quickstart.yaml", "--seconds", "1"}).exit_code == 2);
  const ProcessResult no_data = bench_images(cache, {"data.root=no/such/folder"});
  CHECK(no_data.exit_code == 6);
  CHECK_THAT(no_data.err, Contains("no/such/folder"));

  // Its header is whole and its pixels are cut off.
  const ScratchFolder images;
  std::filesystem::copy(TRAINER_SOURCE_DIR "/tests/datasets/digit_images/images/1", images / "1",
                        std::filesystem::copy_options::recursive);
  const std::string broken = images / "1/04.png";
  std::filesystem::resize_file(broken, std::filesystem::file_size(broken) / 2);
  const std::vector<std::string> one_class = {"data.root=" + images.path(), "data.split=0"};
  const ProcessResult bad = bench_images(cache, one_class);
  CHECK(bad.exit_code == 6);
  CHECK_THAT(bad.err, Contains("04.png"));
  CHECK(std::filesystem::is_empty(cache / "trainer"));  // the folder was made, and nothing is kept in it
  std::vector<std::string> skipping = one_class;
  skipping.emplace_back("data.on_bad_sample=skip");
  CHECK(bench_images(cache, skipping).exit_code == 0);

  const ProcessResult nowhere =
      run_trainer({"bench", "configs/quickstart.yaml", "--data"}, {.environment = {{"XDG_CACHE_HOME", "/dev/null"}}});
  CHECK(nowhere.exit_code == 6);
  CHECK_THAT(nowhere.err, Contains("/dev/null"));
}

TEST_CASE("bench refuses what it cannot measure, with the usual exit codes") {
  const ScratchFolder cache;
  CHECK(run_trainer({"bench", "no/such.yaml"}).exit_code == 2);
  CHECK(run_trainer({"bench", "configs/quickstart.yaml", "--steps", "0"}).exit_code == 2);
  const ProcessResult override = run_trainer({"bench", "train.batch_size=3"});
  CHECK(override.exit_code == 2);
  CHECK_THAT(override.err, Contains("device."));
  // Where no folder can be made, before anything is measured.
  const ProcessResult nowhere =
      run_trainer({"bench", "device.type=cpu"}, {.environment = {{"XDG_CACHE_HOME", "/dev/null"}}});
  CHECK(nowhere.exit_code == 6);
  CHECK_THAT(nowhere.err, Contains("/dev/null"));
  CHECK(bench_tiny(cache, {"train.steps=0"}).exit_code == 2);
  CHECK(bench_tiny(cache, {"data={type: idx, root: no/such/folder}"}).exit_code == 6);
  CHECK(bench_tiny(cache, {"device.type=cuda:99"}).exit_code == 7);
  const ProcessResult memory = bench_tiny(cache, {"memory.limit=1MiB"});
  CHECK(memory.exit_code == 3);
  CHECK_THAT(memory.err, Contains("trainer plan"));
}
