#include "engine/train/config_drift.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "tests/train/training_fixture.h"

using namespace trainer;

namespace {

std::vector<std::string> drift_of(const std::vector<std::string>& overrides) {
  const std::string before = resolved_json(parse_experiment(small_experiment, "a.yaml"));
  return find_config_drift(before, resolved_json(parse_experiment(small_experiment, "b.yaml", overrides)));
}

}  // namespace

TEST_CASE("What does not change the result may change between a run and its resumption") {
  CHECK(drift_of({}).empty());
  CHECK(drift_of({"train.steps=99", "train.epochs=3", "train.log_every=1", "output=elsewhere", "name=other",
                  "checkpoint.every=1", "checkpoint.keep=9", "device.threads=1", "memory.limit=1GiB",
                  "memory.preflight=off", "train.eval_every=4", "train.early_stopping.patience=3"})
            .empty());
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
