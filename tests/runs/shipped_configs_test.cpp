#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

using namespace trainer;
using nlohmann::json;

namespace {

/// Every runnable experiment below configs/, from the repository root.
std::vector<std::string> shipped_configs() {
  const std::filesystem::path root = TRAINER_SOURCE_DIR;
  std::vector<std::string> configs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "configs")) {
    const std::string path = entry.path().lexically_relative(root).string();
    const bool is_part = path.starts_with("configs/gpus/") || path.starts_with("configs/models/");
    if (entry.path().extension() == ".yaml" && !is_part) configs.push_back(path);
  }
  std::sort(configs.begin(), configs.end());
  return configs;
}

/// Two small steps; in place of files that are not part of the repository, random data of the same shape, or a text
/// that is part of it, whose tokens are kept in `folder`.
std::vector<std::string> shortened(const std::string& config, const std::string& folder) {
  const ProcessResult shown = run_trainer({"config", "show", config, "--json"});
  INFO(config << ": " << shown.err);
  REQUIRE(shown.exit_code == 0);
  const std::string type = json::parse(shown.out)["data"]["type"];
  std::vector<std::string> words = {config, "train.steps=2", "train.batch_size=8", "train.eval_batch_size=64"};
  if (type == "idx") words.emplace_back("data={type: synthetic, shape: [28, 28, 1], classes: 10, samples: 40}");
  if (type == "cifar10") words.emplace_back("data={type: synthetic, shape: [32, 32, 3], classes: 10, samples: 40}");
  if (type == "text")
    words.push_back("data={type: text, train: configs/README.md, cache_folder: " + folder +
                    ", sequence_length: 32, classes: 256, samples: 40}");
  // Its layers are 95 MiB each, on purpose.
  if (config == "configs/challenges/deep_network.yaml")
    words.insert(words.end(), {"model.layers.1.linear.out=61", "model.layers.3.repeat.layers.0.linear.out=61"});
  // A step on whole images takes a GPU.
  if (config == "configs/bench/resnet50.yaml")
    words.insert(words.end(), {"data.shape=[33, 33, 3]", "data.samples=40", "data.validation_samples=3"});
  if (config == "configs/memory/mobilenetv2.yaml") words.emplace_back("data.shape=[33, 33, 3]");
  if (config == "configs/memory/unet.yaml" || config == "configs/bench/unet_128.yaml")
    words.insert(words.end(), {"data.shape=[32, 32, 3]", "data.target_shape=[32, 32]", "model.with={width: 16}"});
  if (config == "configs/bench/gpt2_124m.yaml" || config == "configs/memory/gpt2.yaml")
    words.insert(words.end(), {"model.with={depth: 2, width: 48, heads: 3}", "data.sequence_length=64"});
  if (config == "configs/memory/llama.yaml" || config == "configs/memory/llama_8b.yaml")
    words.insert(words.end(),
                 {"model.with={depth: 1, width: 32, hidden: 40, heads: 2, kv_heads: 1}", "data.sequence_length=64"});
  // Its stages are run by configurations of their own; what they share is here.
  if (config == "configs/stages.yaml") words.emplace_back("stages=null");
  if (config == "configs/memory/vit_b.yaml") words.emplace_back("model.with={size: tiny, depth: 1}");
  return words;
}

ProcessResult run_command(const std::string& command, std::vector<std::string> words) {
  words.insert(words.begin(), command);
  return run_trainer(words);
}

}  // namespace

TEST_CASE("with a planned segment every configuration reserves at most a hundredth above its peak") {
  const ScratchFolder folder;
  for (const std::string& config : shipped_configs()) {
    for (const char* optimizer : {"", "optimizer={type: adamw, lr: 0.001}", "train.accumulation_steps=2"}) {
      const bool is_one_batch = config == "configs/challenges/whole_training_set.yaml";
      if (is_one_batch && std::string(optimizer) == "train.accumulation_steps=2") continue;
      std::vector<std::string> words = shortened(config, folder / "tokens");
      // Whole batches: only the files are replaced, by as many samples.
      words.erase(words.begin() + 1, words.begin() + 4);
      for (std::string& word : words) {
        const std::size_t few = word.find("samples: 40}");
        if (few != std::string::npos)
          word.replace(few, std::string::npos, "samples: 50000, validation_samples: 10000}");
      }
      words.insert(words.end(), {"--json", "memory.allocator=planned", "memory.expandable_segments=false",
                                 "memory.limit=4TiB", "train.epochs=2"});
      if (*optimizer != '\0') words.emplace_back(optimizer);
      const ProcessResult result = run_command("plan", words);
      INFO(config << " " << optimizer << "\n" << result.out << result.err);
      REQUIRE((result.exit_code == 0 || result.exit_code == 4));
      const json plan = events_of(result.out).front();
      const std::int64_t reserved = plan["peak_reserved"], allocated = plan["peak_allocated"];
      CHECK(reserved >= allocated);
      CHECK(static_cast<double>(reserved) <= 1.01 * static_cast<double>(allocated));
    }
  }
}

TEST_CASE("every configuration that is shipped runs") {
  ScratchFolder folder;
  const std::vector<std::string> configs = shipped_configs();
  REQUIRE(configs.size() >= 5);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    std::vector<std::string> words = shortened(configs[i], folder / "tokens");
    CHECK(run_command("check", words).exit_code == 0);
    words.push_back("output=" + (folder / std::to_string(i)));
    words.emplace_back("--json");
    const ProcessResult result = run_command("run", words);
    INFO(configs[i] << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    const std::vector<json> events = events_of(result.out);
    REQUIRE(events_named(events, "step").size() == 2);
    CHECK(events.back()["status"] == "done");
  }
}
