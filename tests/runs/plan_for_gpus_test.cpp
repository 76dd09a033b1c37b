#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/bytes.h"
#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;
using nlohmann::json;

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

std::vector<std::string> files_below(const std::string& folder, const std::vector<std::string>& but_not = {}) {
  const std::filesystem::path root = TRAINER_SOURCE_DIR;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const std::string path = entry.path().lexically_relative(root).string();
    const bool is_left_out =
        std::any_of(but_not.begin(), but_not.end(), [&](const std::string& below) { return path.starts_with(below); });
    if (entry.path().extension() == ".yaml" && !is_left_out) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

json plan_of(std::vector<std::string> words) {
  words.insert(words.begin(), "plan");
  words.emplace_back("--json");
  const ProcessResult result = run_trainer(words);
  INFO(words[1] << "\n" << result.err);
  REQUIRE((result.exit_code == 0 || result.exit_code == 4));
  return json::parse(result.out);
}

/// Need 14 or 16 bytes for each of their 1.2 and 8 billion parameters: techniques, and several GPUs, are what they are
/// there to show.
const std::set<std::string> larger_than_an_rtx3060 = {"configs/memory/llama.yaml", "configs/memory/llama_8b.yaml"};

/// An MLP on made-up data, which no GPU holds at once with a large batch.
const std::vector<std::string> mlp = {"configs/mnist_mlp.yaml",
                                      "data={type: synthetic, shape: [28, 28, 1], classes: 10, samples: 8000000}"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("every shipped configuration is planned for a GPU that is not here, and all but two fit an RTX 3060") {
  const std::vector<std::string> configs = files_below("configs", {"configs/gpus/", "configs/models/"});
  REQUIRE(configs.size() >= 5);
  for (const std::string& config : configs) {
    const json plan = plan_of({config, "--gpu", "rtx3060-12gb"});
    INFO(config);
    CHECK(plan["fits"] == !larger_than_an_rtx3060.contains(config));
    CHECK(plan["device"] == json({{"kind", "cuda"}, {"name", "NVIDIA GeForce RTX 3060"}}));
    CHECK(plan["profile"] == "configs/gpus/rtx3060-12gb.yaml");
    CHECK(plan["peak_reserved"] >= plan["peak_allocated"]);
    CHECK((plan["workspace"] == "exact" || plan["workspace"] == "bounded"));
    std::int64_t sum = 0;
    for (const json& part : plan["outside_allocator"]["parts"]) sum += part["bytes"].get<std::int64_t>();
    CHECK(plan["outside_allocator"]["parts"].size() == 2);
    CHECK(plan["outside_allocator"]["bytes"] == sum);
  }
}

TEST_CASE("every profile that is shipped has a plan, under its own capacity") {
  std::int64_t last = 0;
  const std::vector<std::string> gpus = {"rtx3080-10gb", "rtx4070",   "rtx3060-12gb", "t4",      "rtx4080",
                                         "v100-16gb",    "a10",       "l4",           "rtx4090", "rtx3090",
                                         "rtx5090",      "v100-32gb", "a100-40gb",    "l40s",    "a40",
                                         "a6000",        "h100",      "a100-80gb",    "h200",    "b200"};
  std::vector<std::string> shipped;
  for (const std::string& path : files_below("configs/gpus"))
    shipped.push_back(std::filesystem::path(path).stem().string());
  CHECK_THAT(shipped, Catch::Matchers::UnorderedEquals(gpus));
  for (const std::string& gpu : gpus) {
    const json plan = plan_of({"configs/quickstart.yaml", "--gpu", gpu});
    INFO(gpu);
    CHECK(plan["fits"] == true);
    CHECK(plan["capacity_from"].get<std::string>().starts_with("free on an idle "));
    const std::int64_t capacity = plan["capacity"];
    CHECK(capacity > last);
    last = capacity;
  }
}

TEST_CASE("a plan for a GPU holds the staging of the next batch, and the CPU's does not") {
  const json cpu = plan_of({mlp[0], "device=cpu"});
  const json gpu = plan_of({mlp[0], "--gpu", "t4"});
  CHECK(gpu["workspace"] == "exact");  // without convolutions no scratch is guessed
  CHECK(gpu["by_category"]["input"] > 0);
  // 128 images of 784 bytes and their classes.
  const std::int64_t staged = 128 * 784 + 128 * 4;
  const std::int64_t gained =
      gpu["steps"][0]["requested"].get<std::int64_t>() - cpu["steps"][0]["requested"].get<std::int64_t>();
  CHECK(gained == staged);
}

TEST_CASE("a plan for a GPU does not depend on what this machine could run") {
  json cpu = plan_of({mlp[0], "--gpu", "h100", "device=cpu"});
  CHECK(cpu["notes"].size() == 1);  // that the device of the configuration is not the one planned for
  cpu["notes"] = json::array();
  CHECK(cpu == plan_of({mlp[0], "--gpu", "h100", "device=cuda:3"}));
}

TEST_CASE("a profile whose file for cuDNN is missing or describes another GPU is refused, with both named") {
  ScratchFolder folder;
  const auto plan_with = [&](const std::string& cudnn) {
    std::ifstream shipped(std::string(TRAINER_SOURCE_DIR) + "/configs/gpus/t4.yaml");
    const std::string text{std::istreambuf_iterator<char>(shipped), {}};
    const std::string key = "cudnn: t4.cudnn.json";
    REQUIRE(text.find(key) != std::string::npos);
    std::ofstream(folder / "mine.yaml") << std::string(text).replace(text.find(key), key.size(), "cudnn: " + cudnn);
    return run_trainer({"plan", mlp[0], "--gpu", folder / "mine.yaml"});
  };
  const ProcessResult missing = plan_with("nope.json");
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, Catch::Contains("mine.yaml: key 'cudnn'") && Catch::Contains("nope.json"));
  const ProcessResult other = plan_with(std::string(TRAINER_SOURCE_DIR) + "/configs/gpus/h200.cudnn.json");
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, Catch::Contains("sm_90 with 132") && Catch::Contains("sm_75 with 40"));
}

TEST_CASE("the lowest of the profile, memory.limit and --capacity bounds a plan for a GPU") {
  const std::int64_t whole = plan_of({mlp[0], "--gpu", "t4"})["capacity"];
  CHECK(whole > std::int64_t{14} << 30);
  json plan = plan_of({mlp[0], "--gpu", "t4", "memory.limit=64MiB"});
  CHECK(plan["capacity"] == 64 * mebibyte);
  CHECK(plan["capacity_from"] == "memory.limit");
  plan = plan_of({mlp[0], "--gpu", "t4", "memory.limit=64MiB", "--capacity", "32MiB"});
  CHECK(plan["capacity"] == 32 * mebibyte);
  CHECK(plan["capacity_from"] == "--capacity");
  plan = plan_of({mlp[0], "--gpu", "t4", "--capacity", "1TiB"});
  CHECK(plan["capacity"] == whole);
  CHECK(plan["capacity_from"] == "free on an idle Tesla T4");
}

TEST_CASE("what does not fit a GPU exits with 4 and gets changes that fit it, planned for the same GPU") {
  const json plan = plan_of(with(mlp, {"--gpu", "t4", "train.batch_size=4000000"}));
  CHECK(plan["fits"] == false);
  REQUIRE(plan["fixes"].size() > 0);
  const json& fix = plan["fixes"][0];
  CHECK(fix["fits"] == true);
  CHECK(fix["capacity"] == plan["capacity"]);
  std::vector<std::string> words = with(mlp, {"--gpu", "t4", "train.batch_size=4000000"});
  for (const json& word : fix["set"]) words.push_back(word);
  const json fixed = plan_of(words);
  CHECK(fixed["fits"] == true);
  CHECK(fixed["peak_reserved"] == fix["peak_reserved"]);

  for (const auto& [gpu, exit_code] : {std::pair("t4", 4), std::pair("b200", 0)})
    CHECK(run_trainer(with({"plan"}, with(mlp, {"--gpu", gpu, "train.batch_size=4000000", "--quiet"}))).exit_code ==
          exit_code);
}

TEST_CASE(
    "the report of a plan for a GPU names the profile, what lies outside the allocator, and how scratch is known") {
  const ProcessResult result = run_trainer({"plan", "configs/quickstart.yaml", "--gpu", "rtx4090"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("on cuda (NVIDIA GeForce RTX 4090)\n"
                                  "The device is described by configs/gpus/rtx4090.yaml; nothing has run"));
  CHECK_THAT(result.out, Contains("(free on an idle NVIDIA GeForce RTX"));
  CHECK_THAT(result.out,
             Contains("Outside the allocator, not counted here: 470.00 MiB (estimated CUDA context 380.00"));
  const bool is_exact = result.out.find("Scratch is exact") != std::string::npos;
  const bool is_bounded = result.out.find("counted with its bound, memory.workspace_limit, 96.00") != std::string::npos;
  CHECK(is_exact != is_bounded);
}

TEST_CASE("convolutions that were never timed are planned with the first choice, and the report says so") {
  const std::vector<std::string> words = {"plan", "configs/cifar10_resnet18.yaml", "--gpu", "h200",
                                          "device.autotune=true"};
  const std::string folder = std::filesystem::temp_directory_path() / "trainer-no-timed-convolutions";
  const ProcessOptions nothing_timed{.environment = {{"XDG_CACHE_HOME", folder}}};
  const std::string report = run_trainer(words, nothing_timed).out;
  const bool is_bounded = report.find("counted with its bound, memory.workspace_limit") != std::string::npos;
  const bool is_untimed = report.find("not been timed on this GPU") != std::string::npos;
  CHECK(is_bounded != is_untimed);
  CHECK(json::parse(run_trainer(with(words, {"--json"}), nothing_timed).out)["workspace"] == "bounded");
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("a plan is the same whether cuDNN is asked or what it answered before is read") {
  const ScratchFolder cache;
  const ProcessOptions kept{.environment = {{"XDG_CACHE_HOME", cache.path()}, {"TRAINER_SCRATCH_CACHE", ""}}};
  for (const std::string& precision : {std::string("bf16"), std::string("fp16")}) {
    const std::vector<std::string> words = {"plan",         "configs/bench/resnet50.yaml", "--gpu",
                                            "h100,rtx4090", "train.batch_size=9",          "train.amp=" + precision,
                                            "--json"};
    const json asked = json::parse(run_trainer(words).out);
    CHECK(json::parse(run_trainer(words, kept).out) == asked);
    CHECK(json::parse(run_trainer(words, kept).out) == asked);
  }
}

TEST_CASE("an unknown GPU is answered with the nearest name and all names") {
  const ProcessResult result = run_trainer({"plan", "configs/quickstart.yaml", "--gpu", "rtx5080"});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("unknown GPU profile 'rtx5080'; did you mean 'rtx4080'?"));
  for (const std::string& file : files_below("configs/gpus"))
    CHECK_THAT(result.err, Contains(std::filesystem::path(file).stem().string()));
  CHECK_THAT(run_trainer({"plan", "configs/quickstart.yaml", "--gpu", "rtx3060"}).err,
             Contains("did you mean 'rtx3060-12gb'?"));
}

TEST_CASE("a profile may be any file, and its mistakes are told like those of a configuration") {
  ScratchFolder folder;
  const std::string text =
      "name: My GPU\ncompute_capability: 8.6\nmultiprocessors: 10\n"
      "memory: {total: 1GiB, usable: 1000MiB, bandwidth: 100GB}\n"
      "outside_allocator: {context: 40MiB, libraries: 60MiB}\npeak: {fp32: 1}\n";
  std::ofstream(folder / "mine.yaml") << text;
  const json plan = plan_of({"configs/quickstart.yaml", "--gpu", folder / "mine.yaml"});
  CHECK(plan["device"]["name"] == "My GPU");
  CHECK(plan["capacity"] == 900 * mebibyte);
  CHECK(plan["workspace"] == "bounded");  // it has no file for cuDNN

  std::ofstream(folder / "wrong.yaml") << text << "memroy: 3\n";
  ProcessResult result = run_trainer({"plan", "configs/quickstart.yaml", "--gpu", folder / "wrong.yaml"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains(folder / "wrong.yaml:7:1: error: unknown key 'memroy'"));
  CHECK_THAT(result.err, Contains("did you mean 'memory'?"));

  std::ofstream(folder / "lost.yaml") << text << "cudnn: lost.json\n";
  result = run_trainer({"plan", "configs/quickstart.yaml", "--gpu", folder / "lost.yaml"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("lost.json"));
}

TEST_CASE("the profiles are found from any folder and listed") {
  ScratchFolder folder;
  const ProcessResult list = run_trainer({"plan", "--gpu", "list"}, {.folder = folder.path()});
  CHECK(list.exit_code == 0);
  for (const std::string& file : files_below("configs/gpus"))
    CHECK_THAT(list.out, Contains(std::filesystem::path(file).stem().string() + " "));
  CHECK_THAT(list.out, Contains("NVIDIA H200"));
  const json gpus = json::parse(run_trainer({"plan", "--gpu", "list", "--json"}).out)["gpus"];
  REQUIRE(gpus.size() == files_below("configs/gpus").size());
  for (const json& gpu : gpus) CHECK(gpu["capacity"] < gpu["usable"]);
}

TEST_CASE("a plan still needs a configuration") {
  const ProcessResult result = run_trainer({"plan", "--gpu", "h200"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("CONFIG is missing"));
}

namespace {

/// What a shipped model is planned with: small parameters, and data that it takes.
struct ShippedModelUse {
  std::string with, data;
};
ShippedModelUse use_of_shipped_model(const std::string& model) {
  const std::string tokens = "data={type: tokens, train: none.bin, sequence_length: 16, classes: 7, samples: 64}";
  const std::string images = "data={type: synthetic, shape: [64, 64, 3], classes: 7, samples: 64}";
  if (model == "gpt2") return {"depth: 2, width: 48, heads: 3, vocabulary: 7", tokens};
  if (model == "llama") return {"depth: 2, width: 48, hidden: 64, heads: 4, kv_heads: 2, vocabulary: 7", tokens};
  if (model == "qwen3")
    return {"depth: 2, width: 48, hidden: 64, heads: 4, kv_heads: 2, head_width: 12, vocabulary: 7", tokens};
  if (model == "bert")
    return {"depth: 2, width: 48, heads: 3, vocabulary: 7",
            "data={type: tokens, train: none.bin, sequence_length: 16, classes: 7, samples: 64, mask_token: 3}"};
  if (model == "vit") return {"size: tiny, depth: 2, image: 64, classes: 7", images};
  if (model.starts_with("unet"))
    return {"classes: 7",
            "data={type: synthetic, shape: [64, 64, 3], target_shape: [64, 64], classes: 7, samples: 64}"};
  return {"classes: 7", images};
}

}  // namespace

TEST_CASE("transformers of their full size are planned for every GPU, at the ends of batches and lengths") {
  struct Network {
    std::string config;
    std::vector<std::string> words;
    std::string length;  ///< the key of a sample's tokens; empty: images
  };
  const std::string gpt2 = "configs/memory/gpt2.yaml";
  const std::vector<Network> networks = {
      {gpt2, {"data.sequence_length=${model.with.length}"}, "model.with.length"},
      {gpt2, {"model.with.size=1558M", "data.sequence_length=${model.with.length}"}, "model.with.length"},
      {"configs/memory/llama.yaml", {}, "data.sequence_length"},
      {"configs/memory/vit_b.yaml", {}, ""},
  };
  for (const Network& network : networks) {
    INFO(network.config);
    const auto peaks = [&](std::vector<std::string> words) {
      words.insert(words.begin(), {"plan", network.config});
      words.insert(words.end(), network.words.begin(), network.words.end());
      words.insert(words.end(), {"--gpu", "all", "--json"});
      const ProcessResult result = run_trainer(words);
      INFO(result.err);
      REQUIRE((result.exit_code == 0 || result.exit_code == 4));
      std::vector<std::int64_t> reserved;
      const json targets = events_of(result.out).front()["targets"];
      for (const json& target : targets) reserved.push_back(target["peak_reserved"]);
      REQUIRE(reserved.size() == files_below("configs/gpus").size());
      return reserved;
    };
    const std::vector<std::string> lean = {"train.amp=fp16", "memory.moments=8bit", "train.checkpointing=sqrt"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), lean.begin(), lean.end());
      return words;
    };
    const std::string length = network.length;
    const auto of_length = [&](const std::string& number) {
      return length.empty() ? std::vector<std::string>{} : std::vector<std::string>{length + "=" + number};
    };
    std::vector<std::string> many = of_length("1024"), all = of_length("32768");
    many.emplace_back("train.batch_size=64");
    all.emplace_back("train.batch_size=1");
    const std::vector<std::int64_t> of_many = peaks(many), of_many_lean = peaks(with(many)), of_all = peaks(with(all));
    for (std::size_t i = 0; i < of_many.size(); ++i) {
      CHECK(of_many_lean[i] < of_many[i]);
      CHECK(of_all[i] > 0);
    }
  }
}

TEST_CASE("every model that is shipped is planned for every GPU that is described") {
  const ScratchFolder folder;
  for (const std::string& file : files_below("configs/models")) {
    INFO(file);
    const ShippedModelUse use = use_of_shipped_model(std::filesystem::path(file).stem().string());
    const std::string config = folder / "model.yaml";
    std::ofstream(config) << "model: {file: " TRAINER_SOURCE_DIR "/" << file << ", with: {" << use.with << "}}\n";
    const std::vector<std::string> words = {"plan",  config, use.data,         "train.batch_size=8",
                                            "--gpu", "all",  "train.amp=fp16", "--json"};
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const json targets = events_of(result.out).front()["targets"];
    CHECK(targets.size() == files_below("configs/gpus").size());
    for (const json& target : targets) CHECK(target["peak_reserved"] > 0);
  }
}
