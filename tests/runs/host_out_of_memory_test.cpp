// A process to which the system gives no more memory beside the allocator's: address space is limited from outside.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;
using nlohmann::json;

// The sanitizers take address space by the terabyte.
#if !defined(__SANITIZE_ADDRESS__)

namespace {

constexpr std::int64_t address_mebibyte = std::int64_t{1} << 20;
/// The program and its libraries start in less.
constexpr std::int64_t least_limit = 160 * address_mebibyte;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Small steps, and an evaluation that takes 114 MiB for its batch on the host, and about 230 on the device.
std::string large_evaluation(const ScratchFolder& folder) {
  const std::string path = folder / "config.yaml";
  std::ofstream(path) << R"(
name: evaluates
seed: 1
device: {type: cpu, threads: 2}
data: {type: synthetic, shape: [500], classes: 10, samples: 4096, validation_samples: 60000}
model: {layers: [linear: {out: 512}, relu, linear: {out: 10}]}
optimizer: {type: adamw, lr: 0.001}
train: {batch_size: 256, steps: 16, epochs: 1000, eval_batch_size: 60000}
memory: {allocator: caching}
checkpoint: {every: 0}
)";
  return path;
}

/// A limit of address space that comes when the run has begun, as if others took the memory that it was planned for.
ProcessOptions limited_from_start(std::int64_t num_bytes) {
  ProcessOptions options;
  options.on_output = [num_bytes, is_limited = false](pid_t process, const std::string& out) mutable {
    if (is_limited || out.find("\"event\":\"start\"") == std::string::npos) return;
    is_limited = true;
    const auto limit = static_cast<rlim_t>(num_bytes);
    const rlimit both{limit, limit};
    CHECK(prlimit(process, RLIMIT_AS, &both, nullptr) == 0);
  };
  return options;
}

}  // namespace

TEST_CASE("A run that finds no host memory loses nothing, says who asked, and exits with 3") {
  const ScratchFolder folder;
  const std::string config = large_evaluation(folder);
  const ProcessResult unlimited = run_trainer({"run", config, "output=" + folder / "whole", "-q"});
  REQUIRE(unlimited.exit_code == 0);
  const std::string weights = "/checkpoints/step-00000016/model.safetensors";
  int num_refused = 0;
  for (std::int64_t limit = least_limit;; limit += 80 * address_mebibyte) {
    REQUIRE(limit < 2048 * address_mebibyte);
    const std::string output = folder / ("run" + std::to_string(limit));
    const ProcessResult result = run_trainer({"run", config, "output=" + output, "--json"}, limited_from_start(limit));
    INFO("limit " << limit << "\n" << result.err);
    if (result.exit_code == 0 && limit > 400 * address_mebibyte) break;
    if (result.exit_code == 0) continue;  // the run was over before it was limited
    REQUIRE(result.exit_code == 3);
    CHECK(events_of(result.out).back()["status"] == "oom");
    // All 16 steps were trained, and are there.
    CHECK(bytes_of(output + weights) == bytes_of(folder / "whole" + weights));
    if (result.err.find("read ahead") == std::string::npos) continue;  // the allocator's own report
    ++num_refused;
    CHECK_THAT(result.err, Contains("no memory left for a batch of samples that is read ahead: 114.44 MiB"));
    const ProcessResult resumed = run_trainer({"run", config, "output=" + output, "--resume", "--json"});
    CHECK(resumed.exit_code == 0);
    CHECK(events_of(resumed.out).back()["accuracy"].is_number());
  }
  CHECK(num_refused > 0);
}

TEST_CASE("A run that its limit of addresses leaves no room for is known before its first step") {
  const ScratchFolder folder;
  const std::string config = large_evaluation(folder);
  const ProcessResult result = run_trainer({"run", config, "output=" + folder / "run", "--json"},
                                           {.address_space = least_limit + 96 * address_mebibyte});
  INFO(result.err);
  CHECK(result.exit_code == 3);
  const std::vector<json> events = events_of(result.out);
  CHECK(events.front()["device"]["capacity"] < 256 * address_mebibyte);
  CHECK(events_named(events, "oom").size() == 1);
  CHECK(events_named(events, "step").empty());
}

TEST_CASE("A dataset for which there is no host memory is told with its size") {
  const ScratchFolder folder;
  constexpr int num_samples = 200'000, side = 28;
  const auto header = [](std::ofstream& file, std::initializer_list<int> numbers) {
    for (const int number : numbers)
      for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(number >> shift));
  };
  const std::string images = folder / "train-images-idx3-ubyte", labels = folder / "train-labels-idx1-ubyte";
  std::ofstream image_file(images, std::ios::binary), label_file(labels, std::ios::binary);
  header(image_file, {2051, num_samples, side, side});
  header(label_file, {2049, num_samples});
  image_file.close();
  label_file.close();
  std::filesystem::resize_file(images, 16 + std::uintmax_t{num_samples} * side * side);  // of zeros, on no disk
  std::filesystem::resize_file(labels, 8 + num_samples);
  const std::string config = folder / "config.yaml";
  std::ofstream(config) << "name: many\ndevice: {type: cpu, threads: 2}\ndata: {type: idx, root: " << folder.path()
                        << ", classes: 10}\nmodel: {layers: [flatten, linear: {out: 10}]}\ntrain: {steps: 1}\n";
  const ProcessResult result =
      run_trainer({"run", config, "output=" + folder / "run", "-q"}, {.address_space = least_limit});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, Contains("no memory left for the dataset: 150.30 MiB"));
  CHECK(run_trainer({"run", config, "output=" + folder / "run", "-q"}).exit_code == 0);
}

#endif
