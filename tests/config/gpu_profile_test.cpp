#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/config/fields/gpu_profile_fields.h"
#include "engine/config/gpu_profile.h"
#include "engine/errors.h"

namespace fs = std::filesystem;

namespace trainer {
namespace {

const std::string whole_profile = R"(name: NVIDIA Test
compute_capability: 8.6
multiprocessors: 28
memory: {total: 12288MiB, usable: 11.5GiB, bandwidth: 360GB}
outside_allocator: {context: 100MiB, libraries: 50MiB}
peak: {fp32: 12.7, fp16: 25.5}
cudnn: test.cudnn.json
)";

std::string error_of_profile(const std::string& text) {
  try {
    parse_gpu_profile(text, "test.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<fs::path> shipped_profiles() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(TRAINER_SOURCE_DIR) / "configs/gpus")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

}  // namespace

TEST_CASE("a GPU profile is read with its units") {
  const GpuProfile profile = parse_gpu_profile(whole_profile, "some/folder/test.yaml");
  CHECK(profile.name == "NVIDIA Test");
  CHECK(profile.compute_capability == 86);
  CHECK(profile.num_multiprocessors == 28);
  CHECK(profile.total_bytes == std::int64_t{12288} << 20);
  CHECK(profile.usable_bytes == std::int64_t{23} << 29);
  CHECK(profile.bandwidth == 360'000'000'000);
  CHECK(profile.context_bytes == 100 << 20);
  CHECK(profile.library_bytes == 50 << 20);
  CHECK(profile.free_bytes() == (std::int64_t{23} << 29) - (150 << 20));
  CHECK(profile.fp32 == 12.7);
  CHECK(profile.tf32 == 0);
  CHECK(profile.fp16 == 25.5);
  CHECK(profile.cudnn_path() == "some/folder/test.cudnn.json");
}

TEST_CASE("links of a GPU are read, and are not known where a profile is silent") {
  const GpuProfile silent = parse_gpu_profile(whole_profile, "test.yaml");
  CHECK(silent.nvlink == 0);
  CHECK(silent.pcie == 0);
  CHECK(silent.network == 0);
  CHECK(silent.network_latency == 9.6);
  const GpuProfile linked = parse_gpu_profile(
      whole_profile + "links: {nvlink: 450GB, pcie: 64GB, network: 6250MB, network_latency: 25.5}\n", "test.yaml");
  CHECK(linked.nvlink == 450'000'000'000);
  CHECK(linked.pcie == 64'000'000'000);
  CHECK(linked.network == 6'250'000'000);
  CHECK(linked.network_latency == 25.5);
  const std::string message =
      error_of_profile(whole_profile + "links: {nvlnk: 450GB, pcie: -1, network: fast, network_latency: -0.5}\n");
  for (const char* part :
       {"test.yaml:8:9: error: unknown key 'nvlnk' in 'links'", "did you mean 'links.nvlink'?",
        "test.yaml:8:29: error: 'links.pcie': '-1' is negative", "test.yaml:8:42: error: 'links.network': 'fast'",
        "test.yaml:8:65: error: 'links.network_latency': '-0.5' is below 0"})
    CHECK_THAT(message, Catch::Contains(part));
}

TEST_CASE("compute capability 12.0 is not 1.20") {
  std::string text = whole_profile;
  text.replace(text.find("8.6"), 3, "12.0");
  CHECK(parse_gpu_profile(text, "test.yaml").compute_capability == 120);
}

TEST_CASE("all mistakes of a GPU profile are told at once, each with its place") {
  const std::string message = error_of_profile(
      "name: NVIDIA Test\n"
      "compute_capability: ninety\n"
      "multiprocesors: 28\n"
      "memory: {total: 12GiB, usable: -1, bandwith: 360GB}\n"
      "peak: 12\n");
  for (const char* part :
       {"test.yaml:2:21: error: 'compute_capability': 'ninety' is not a number",
        "test.yaml:3:1: error: unknown key 'multiprocesors'\n", "did you mean 'multiprocessors'?",
        "test.yaml:4:32: error: 'memory.usable': '-1' is negative",
        "test.yaml:4:36: error: unknown key 'bandwith' in 'memory'", "did you mean 'memory.bandwidth'?",
        "test.yaml:5:7: error: 'peak' is a section\n", "error: 'multiprocessors' is missing\n",
        "error: 'outside_allocator.context' is missing\n", "error: 'peak.fp32' is missing\n"})
    CHECK_THAT(message, Catch::Contains(part));
}

TEST_CASE("a GPU profile without keys is no profile") {
  CHECK_THAT(error_of_profile(""), Catch::Contains("the file has no keys"));
  CHECK_THAT(error_of_profile("- 1\n"), Catch::Contains("this is a list, not keys with values"));
  CHECK_THROWS_AS(load_gpu_profile("no/such/profile.yaml"), ConfigError);
}

TEST_CASE("a GPU profile cannot use more memory than it has, or hold all of it outside the allocator") {
  std::string text = whole_profile;
  text.replace(text.find("11.5GiB"), 7, "12.1GiB");
  CHECK_THAT(error_of_profile(text), Catch::Contains("more memory is usable than there is"));
  text = whole_profile;
  text.replace(text.find("100MiB"), 6, "11.5GiB");
  CHECK_THAT(error_of_profile(text), Catch::Contains("leave nothing of the usable memory"));
}

TEST_CASE("every GPU profile that is shipped is whole, and its file for cuDNN describes the same device") {
  const std::vector<fs::path> files = shipped_profiles();
  REQUIRE(files.size() >= 8);
  for (const fs::path& file : files) {
    INFO(file);
    const GpuProfile profile = load_gpu_profile(file.string());
    CHECK(profile.free_bytes() > profile.total_bytes * 9 / 10);
    CHECK(profile.usable_bytes < profile.total_bytes);
    CHECK(profile.fp16 > profile.fp32);
    CHECK((profile.compute_capability >= 80) == (profile.tf32 > 0));
    // No link is faster than the GPU's own memory, and none between machines faster than one within.
    CHECK(profile.pcie >= 16'000'000'000);
    CHECK((profile.nvlink == 0 || profile.nvlink > profile.pcie));
    CHECK(std::max(profile.nvlink, profile.pcie) < profile.bandwidth / 2);
    CHECK(profile.network < std::max(profile.nvlink, profile.pcie));
    // For GPUs before Turing cuDNN plans nothing any more.
    CHECK(fs::exists(profile.cudnn_path()) == (profile.compute_capability >= 75));
    if (profile.compute_capability < 75) continue;
    std::ifstream stream(profile.cudnn_path());
    const nlohmann::json properties = nlohmann::json::parse(stream, nullptr, false);
    REQUIRE(properties.is_object());
    CHECK(properties["deviceName"] == profile.name);
    CHECK(properties["deviceVer"] == profile.compute_capability * 10);
    CHECK(properties["multiProcessorCount"] == profile.num_multiprocessors);
    CHECK(properties["totalGlobalMem"] == profile.usable_bytes);
  }
}

TEST_CASE("every key of a GPU profile is explained") {
  for (const auto& field : gpu_profile_fields()) {
    INFO(field.key);
    CHECK(field.help.size() > 10);
    CHECK(field.help.back() != '.');
  }
}

}  // namespace trainer
