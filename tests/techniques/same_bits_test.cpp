#include <catch2/catch.hpp>

#include "tests/techniques/free_of_consequence.h"
#include "tests/techniques/networks.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

/// The weights and the optimizer's state after 12 steps.
std::string trained_bytes(const TechniqueNetwork& network, const OutputFolder& folder, const std::string& name,
                          Settings set) {
  set.insert(set.end(), {"train.batch_size=5", "train.steps=12", "name=bits"});
  TestRun run(network.yaml, folder.path(name), set);
  run.options.overwrite = true;
  REQUIRE(run() == RunStatus::done);
  return file_bytes(checkpoint_file(folder.path(name), 12, "model.safetensors")) +
         file_bytes(checkpoint_file(folder.path(name), 12, "optimizer.safetensors"));
}

void check_same_bits(const Settings& common, const std::vector<Settings>& changes) {
  const OutputFolder folder;
  for (const TechniqueNetwork& network : technique_networks()) {
    const std::string expected = trained_bytes(network, folder, "expected", common);
    for (const Settings& change : changes) {
      Settings set = common;
      set.insert(set.end(), change.begin(), change.end());
      INFO(network.name << ", " << change.front());
      const bool is_same = trained_bytes(network, folder, "changed", set) == expected;
      CHECK(is_same);
    }
  }
}

}  // namespace

TEST_CASE("what only holds less memory changes no bit of the result in f32") {
  std::vector<Settings> changes = free_of_consequence;
  changes.push_back({"memory.update=in_backward"});
  changes.push_back({"memory.update=in_backward", "train.checkpointing=sqrt", "memory.allocator=planned"});
  check_same_bits({"optimizer={type: adamw, lr: 0.01, weight_decay: 0.1}"}, changes);
}

TEST_CASE("what only holds less memory changes no bit of the result in bf16 with 8-bit moments") {
  std::vector<Settings> changes = free_of_consequence;
  changes.push_back({"memory.update=in_backward"});
  check_same_bits({"train.amp=bf16", "optimizer={type: adamw, lr: 0.01}", "memory.moments=8bit"}, changes);
}

TEST_CASE("what only holds less memory changes no bit of the result in fp16 with accumulation and clipping") {
  check_same_bits({"train.amp=fp16", "train.accumulation_steps=2", "train.clip_norm=0.5",
                   "optimizer={type: sgd, lr: 0.05, momentum: 0.9}"},
                  free_of_consequence);
}

}  // namespace trainer
