#include "engine/config/override_text.h"

#include <catch2/catch.hpp>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/load_experiment.h"

using namespace trainer;

namespace {

Experiment override_base(const std::vector<std::string>& overrides = {}) {
  return parse_experiment("model: {layers: [flatten, linear: {out: 10}]}\n", "test.yaml", overrides);
}

}  // namespace

TEST_CASE("An override is written as a person would type it") {
  const Experiment experiment =
      override_base({"train.amp=bf16", "memory.gradients=16bit", "optimizer=adam", "train.checkpointing={every: 2}",
                     "checkpoint.every=2ep", "train.batch_size=auto", "device=cuda:1", "name='a: b'"});
  CHECK(override_of("train.amp", experiment) == "train.amp=bf16");
  CHECK(override_of("memory.gradients", experiment) == "memory.gradients=16bit");
  CHECK(override_of("memory.offload", experiment) == "memory.offload=off");
  CHECK(override_of("optimizer.betas", experiment) == "optimizer.betas=[0.9, 0.999]");
  CHECK(override_of("train.checkpointing", experiment) == "train.checkpointing={every: 2}");
  CHECK(override_of("checkpoint.every", experiment) == "checkpoint.every=2ep");
  CHECK(override_of("train.batch_size", experiment) == "train.batch_size=auto");
  CHECK(override_of("device.type", experiment) == "device.type=cuda:1");
  CHECK(override_of("memory.limit", experiment) == "memory.limit=null");
  CHECK(override_of("name", experiment) == "name=\"a: b\"");
}

TEST_CASE("An override of bytes has the largest unit that leaves a whole number") {
  for (const char* size : {"0", "1", "1023", "1KiB", "1025", "1000KiB", "128MiB", "1GiB", "1536MiB", "4096GiB"}) {
    const std::string text = std::string("memory.workspace_limit=") + size;
    const Experiment experiment = override_base({text});
    CHECK(override_of("memory.workspace_limit", experiment) == text);
    CHECK(override_base({override_of("memory.workspace_limit", experiment)}).memory.workspace_limit ==
          experiment.memory.workspace_limit);
  }
}

TEST_CASE("A GPU that is named by its number stays so, for ranks take others where none is named") {
  CHECK(override_of("device.type", override_base({"device=cuda:0"})) == "device.type=cuda:0");
  CHECK(override_of("device.type", override_base({"device=cuda"})) == "device.type=cuda");
}

TEST_CASE("Every key reads back from its override") {
  const Experiment experiment = override_base({"name='a: b'", "train.batch_size=all", "train.steps=7",
                                               "memory.offload=[linear]", "train.checkpointing={budget: 1GiB}"});
  for (const ExperimentField& field : experiment_fields()) {
    if (!field.get || !field.only_for.empty()) continue;
    INFO(field.key);
    const std::string text = override_of(field.key, experiment);
    const bool is_empty_text = text == field.key + "=null";
    CHECK((is_empty_text || override_of(field.key, override_base({text})) == text));
    CHECK_FALSE(override_between(field.key, experiment, experiment));
  }
}

TEST_CASE("Only what differs is an override") {
  const Experiment before = override_base(), after = override_base({"train.amp=fp16"});
  for (const ExperimentField& field : experiment_fields()) {
    if (!field.get) continue;
    INFO(field.key);
    const std::optional<std::string> text = override_between(field.key, before, after);
    CHECK(text == (field.key == "train.amp" ? std::optional<std::string>("train.amp=fp16") : std::nullopt));
  }
}

TEST_CASE("Overrides of a stage name it, but for keys that all stages share") {
  std::vector<std::string> overrides = {"train.amp=bf16", "parallel.shard=optimizer", "device.threads=2",
                                        "optimizer.lr=1"};
  add_prefix(overrides, "stages.1.");
  CHECK(overrides == std::vector<std::string>{"stages.1.train.amp=bf16", "parallel.shard=optimizer", "device.threads=2",
                                              "stages.1.optimizer.lr=1"});
}
