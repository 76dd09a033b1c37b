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
