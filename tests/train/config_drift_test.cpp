#include "engine/train/config_drift.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/config/key_effects.h"
#include "engine/config/load_experiment.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

std::vector<std::string> drift_of(std::vector<std::string> overrides, const std::vector<std::string>& of_both = {}) {
  const std::string before = resolved_json(parse_experiment(small_experiment, "a.yaml", of_both));
  overrides.insert(overrides.begin(), of_both.begin(), of_both.end());
  return find_config_drift(before, resolved_json(parse_experiment(small_experiment, "b.yaml", overrides)));
}

}  // namespace

TEST_CASE("What does not change the result may change between a run and its resumption") {
  CHECK(drift_of({}).empty());
  CHECK(drift_of({"train.epochs=3", "train.log_every=1", "output=elsewhere", "name=other", "checkpoint.every=1",
                  "checkpoint.keep=9", "device.threads=1", "memory.limit=1GiB", "memory.preflight=off",
                  "train.eval_every=4", "train.early_stopping.patience=3"})
            .empty());
}

TEST_CASE("What only moves memory or time may change between a run and its resumption") {
  for (const char* argument :
       {"train.checkpointing=sqrt", "train.checkpointing={every: 2}", "train.checkpointing={layers: [relu]}",
        "train.checkpointing={budget: 1GiB}", "memory.allocator=planned", "memory.expandable_segments=true",
        "memory.in_place=false", "memory.recompute_cheap=false", "memory.offload=[conv2d]"}) {
    INFO(argument);
    CHECK(drift_of({argument}).empty());
  }
  CHECK(drift_of({"memory.update=in_backward"}, {"train.accumulation_steps=1", "train.clip_norm=0"}).empty());
}

TEST_CASE("What rounds or sums otherwise may not change in a run") {
  CHECK(drift_of({"train.amp=bf16"}).size() == 1);
  CHECK(drift_of({"memory.chunked_loss=3"}) == std::vector<std::string>{"memory.chunked_loss (was \"auto\", is 3)"});
  CHECK(drift_of({"memory.gradients=16bit"}, {"train.amp=bf16"}).size() == 1);
  CHECK(drift_of({"memory.master_weights=false"}, {"train.amp=bf16"}).size() == 1);
  CHECK(drift_of({"memory.moments=8bit"}, {"optimizer={type: adamw, lr: 0.01}"}).size() == 1);
  CHECK(drift_of({"train.loss_scale.initial=4"}, {"train.amp=fp16"}).size() == 1);
}

TEST_CASE("The length of a run may change where no learning rate follows it") {
  const std::string kind = GENERATE("schedule=constant", "schedule={type: step, every: 1ep}");
  CHECK(drift_of({"train.steps=99", "train.epochs=3"}, {kind}).empty());
  CHECK(drift_of({"train.epochs=3"}, {kind, "train.steps=null"}).empty());
}

TEST_CASE("Another length of the run is refused where learning rates follow it") {
  const std::string kind = GENERATE("cosine", "one_cycle");
  const std::vector<std::string> drift = drift_of({"train.steps=99"}, {"schedule=" + kind});
  REQUIRE(drift.size() == 1);
  CHECK(drift[0] ==
        "train.steps (was 40, is 99; the learning rates of schedule " + kind + " follow the length of the run)");
  CHECK(drift_of({"train.epochs=3"}, {"schedule=" + kind, "train.steps=null"}).size() == 1);
  CHECK(drift_of({"train.steps=null"}, {"schedule=" + kind}).size() == 1);
}

TEST_CASE("Data may have moved between a run and its resumption") {
  const std::vector<std::string> at_home = {"data={type: csv, train: a.csv, validation: b.csv}"};
  CHECK(drift_of({"data={type: csv, train: d/a.csv, validation: d/b.csv}"}, at_home).empty());
  CHECK(drift_of({"data.target=0"}, at_home).size() == 1);
  const std::vector<std::string> images = {"data={type: idx, root: a, train: i, train_labels: l}"};
  CHECK(drift_of({"data={type: idx, root: b, train: j, train_labels: k, validation: v, validation_labels: w}"}, images)
            .empty());
}

TEST_CASE("Each key may change in a resumed run just where it is declared so") {
  for (const KeyEffects& each : key_effects()) {
    INFO(each.key);
    std::string pointer = "/" + each.key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const auto with_value = [&](const char* value) {
      nlohmann::json config;
      config[nlohmann::json::json_pointer(pointer)] = value;
      return config.dump();
    };
    const bool changes = each.on_resume == ResumeEffect::changes_numbers;
    CHECK(find_config_drift(with_value("a"), with_value("b")).size() == (changes ? 1 : 0));
  }
}

TEST_CASE("The metric of the best checkpoint may not change in a run") {
  const std::vector<std::string> drift = drift_of({"checkpoint.best=accuracy"});
  REQUIRE(drift.size() == 1);
  CHECK(drift[0] == "checkpoint.best (was \"loss\", is \"accuracy\")");
}

TEST_CASE("Every key that changes the result is named with both values") {
  const std::vector<std::string> drift = drift_of({"train.batch_size=6", "seed=8", "optimizer.lr=0.5"});
  REQUIRE(drift.size() == 3);
  CHECK(drift[0] == "optimizer.lr (was 0.01, is 0.5)");
  CHECK(drift[1] == "seed (was 7, is 8)");
  CHECK(drift[2] == "train.batch_size (was 5, is 6)");
  CHECK(drift_of({"model.layers.0.conv2d.out=7"}).size() == 1);
  CHECK(drift_of({"data.samples=45"}).size() == 1);
  CHECK(drift_of({"schedule={type: constant}"}).size() >= 1);
  CHECK(drift_of({"train.accumulation_steps=1"}).size() == 1);
}

TEST_CASE("How ranks share a batch is told where it differs, unless the parts are the same") {
  const auto drift = [](std::vector<std::string> before, std::vector<std::string> now) {
    for (std::vector<std::string>* const each : {&before, &now})
      each->insert(each->begin(), {"train.accumulation_steps=1", "train.clip_norm=0"});
    return find_sharing_drift(resolved_json(parse_experiment(small_experiment, "a.yaml", before)),
                              resolved_json(parse_experiment(small_experiment, "b.yaml", now)));
  };
  const std::vector<std::string> parts = {"parallel.deterministic=true", "parallel.parts=4"};
  std::vector<std::string> two = parts;
  two.emplace_back("parallel.data=2");
  CHECK(drift({}, {}).text.empty());
  CHECK(drift(parts, two).text.empty());
  CHECK(drift({"parallel.data=2"}, {"parallel.data=2", "parallel.shard=optimizer"}).text.empty());
  CHECK(drift({}, {"parallel.data=2"}).text == "batches are shared by 2 ranks (were of one process)");
  CHECK(drift(two, {"parallel.data=2"}).text ==
        "batches are shared by 2 ranks (were cut into 4 parts (parallel.deterministic))");
  CHECK(drift({}, parts).text == "batches are cut into 4 parts (parallel.deterministic) (were of one process)");
  // Sums of parts of the model are in another order where there are norms of them, or several micro-batches.
  for (const char* more : {"train.accumulation_steps=2", "train.clip_norm=1"})
    CHECK(drift({"parallel.data=2", more}, {"parallel.data=2", "parallel.shard=gradients", more}).text ==
          "batches are shared by 2 ranks (parallel.shard: gradients) (were shared by 2 ranks)");

  // What batch norms see, and what is mixed.
  const std::vector<std::string> synced = {"parallel.data=2", "parallel.sync_batchnorm=true"};
  CHECK_FALSE(drift(synced, {}).norms_see_others);
  CHECK(drift(synced, {}).cuts_otherwise);
  CHECK(drift({"parallel.data=2"}, synced).norms_see_others);
  CHECK_FALSE(drift({"parallel.data=2"}, synced).cuts_otherwise);
  const SharingDrift same_parts = drift({"parallel.deterministic=true", "parallel.parts=2"}, {"parallel.data=2"});
  CHECK_FALSE(same_parts.text.empty());
  CHECK_FALSE(same_parts.norms_see_others);
  CHECK_FALSE(same_parts.cuts_otherwise);
}

TEST_CASE("A configuration of a checkpoint that shares batches by no number is refused") {
  const std::string current = resolved_json(parse_experiment(small_experiment, "a.yaml", {}));
  for (const char* parallel :
       {R"({"data": null})", R"({"deterministic": "yes"})", R"({"deterministic": true, "parts": []})"}) {
    nlohmann::json saved = nlohmann::json::parse(current);
    saved["parallel"] = nlohmann::json::parse(parallel);
    CHECK_THROWS_AS(find_sharing_drift(saved.dump(), current), DataError);
  }
  nlohmann::json saved = nlohmann::json::parse(current);
  saved["parallel"] = nullptr;
  CHECK(find_sharing_drift(saved.dump(), current).text.empty());
}
