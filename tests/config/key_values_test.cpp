#include "engine/config/key_values.h"

#include <catch2/catch.hpp>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/load_experiment.h"

using namespace trainer;

TEST_CASE("A key's value is copied from one experiment to another, and no other's") {
  const auto experiment_with = [](const std::vector<std::string>& overrides) {
    return parse_experiment("model: {layers: [flatten, linear: {out: 10}]}\n", "test.yaml", overrides);
  };
  const Experiment from =
      experiment_with({"train.amp=bf16", "optimizer={type: adam, lr: 0.25, betas: [0.5, 0.75]}",
                       "train.checkpointing={layers: [linear]}", "checkpoint.every=2ep", "train.batch_size=all"});
  Experiment to = experiment_with({});
  for (const std::string key : {"train.amp", "optimizer.betas", "train.checkpointing", "checkpoint.every",
                                "train.batch_size", "optimizer.lr", "optimizer.type"}) {
    INFO(key);
    CHECK_FALSE(has_same_value(key, from, to));
    const Experiment before = to;
    copy_value(key, from, to);
    for (const ExperimentField& field : experiment_fields())
      if (field.get) CHECK(has_same_value(field.key, to, field.key == key ? from : before));
  }
}
