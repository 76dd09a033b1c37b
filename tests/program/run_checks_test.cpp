#include "engine/program/run_checks.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

constexpr const char* small_network = R"(data: {type: synthetic, shape: [4], classes: 3, samples: 20}
model: {layers: [linear: {out: 3}]}
)";

Experiment with(const std::string& more) { return parse_experiment(small_network + more, "test.yaml"); }

}  // namespace

TEST_CASE("Early stopping without validation data is refused where it is asked for") {
  const Experiment experiment = with("train: {early_stopping: {patience: 2}}\n");
  const DescribedDevice device;
  DataDescription data = described_data({4}, 3, 20);
  data.num_validation = 0;
  CHECK_THROWS_WITH(compile(experiment, data, device),
                    Contains("test.yaml:3:26: error: early stopping") && Contains("expected: data.split"));
  CHECK_THROWS_AS(check_run(experiment, data), ConfigError);
  data.num_validation = 4;
  CHECK_NOTHROW(compile(experiment, data, device));
}

TEST_CASE("Leaving out the last batch is refused where no other is there") {
  const DescribedDevice device;
  const DataDescription data = described_data({4}, 3, 20);
  const auto dropping = [](int batch_size) {
    return parse_experiment(
        "model: {layers: [linear: {out: 3}]}\n"
        "data: {type: synthetic, shape: [4], classes: 3, samples: 20,\n"
        "       drop_last: true}\ntrain: {batch_size: " +
            std::to_string(batch_size) + "}\n",
        "test.yaml");
  };
  CHECK_THROWS_WITH(compile(dropping(21), data, device),
                    Contains("test.yaml:3:8: error: 'data.drop_last' leaves nothing") &&
                        Contains("20 training samples do not fill a batch of 21") &&
                        Contains("train.batch_size of at most 20"));
  CHECK_NOTHROW(compile(dropping(20), data, device));
  Experiment all = dropping(21);
  all.train.batch_size = BatchSize::Word::all;
  CHECK_NOTHROW(compile(all, data, device));
}

TEST_CASE("Batches that are smaller than asked, since the data set has no more, are told") {
  const DataDescription data = described_data({4}, 3, 20);
  const auto warnings = [&](const std::string& train) {
    const Experiment experiment = with("train: {" + train + "}\n");
    return run_warnings(experiment, RunSchedule(experiment, data));
  };
  CHECK(
      warnings("batch_size: 21") ==
      std::vector<std::string>{"train.batch_size is 21, and the data set has 20 training samples: every batch has 20"});
  CHECK(warnings("batch_size: 20").empty());
  CHECK(warnings("batch_size: all").empty());
  const DataDescription with_validation = described_data({4}, 3, 20, 7);
  const Experiment experiment = with("train: {batch_size: 5, eval_batch_size: 9}\n");
  CHECK(run_warnings(experiment, RunSchedule(experiment, with_validation)) ==
        std::vector<std::string>{"train.eval_batch_size is 9, and there are 7 validation samples: its batch has 7"});
  CHECK(warnings("batch_size: 5, eval_batch_size: 9").empty());
  CHECK(smaller_batch_text(5, 1) == "train.batch_size is 5, and the data set has 1 training sample: every batch has 1");
}

TEST_CASE("A warm-up that is longer than the run is told with its place") {
  const DataDescription data = described_data({4}, 3, 20);
  const auto warnings = [&](const std::string& more) {
    const Experiment experiment = with(more);
    return run_warnings(experiment, RunSchedule(experiment, data));
  };
  const std::string steps = "train: {batch_size: 5, steps: 8}\n";
  const std::vector<std::string> told =
      warnings(steps + "optimizer: {lr: 0.1}\nschedule: {type: warmup, warmup_steps: 32}\n");
  REQUIRE(told.size() == 1);
  CHECK(told.front() ==
        "test.yaml:5:26: the warm-up of 32 steps is longer than the run of 8: the learning rate never gets above 0.025 "
        "of optimizer.lr 0.1");
  CHECK(warnings(steps + "schedule: {type: cosine, warmup_steps: 9}\n").size() == 1);
  CHECK(warnings(steps + "schedule: {type: cosine, warmup_steps: 8}\n").empty());
  CHECK(warnings(steps + "schedule: one_cycle\n").empty());
  CHECK(warnings("train: {batch_size: 5, steps: 0}\nschedule: {type: cosine, warmup_steps: 9}\n").empty());
  const Experiment overridden =
      parse_experiment(small_network, "test.yaml", {"train.batch_size=5", "schedule.warmup_steps=100000"});
  CHECK_THAT(run_warnings(overridden, RunSchedule(overridden, data)).front(),
             Contains("argument 'schedule.warmup_steps=100000': the warm-up"));
}
