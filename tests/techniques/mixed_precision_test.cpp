#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/techniques/networks.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

using Settings = std::vector<std::string>;

constexpr const char* learnable = R"(
name: learnable
seed: 4
data: {type: digits}
model: {layers: [flatten, linear: {out: 96}, layernorm, gelu, linear: {out: 64}, relu, linear: {out: 10}]}
optimizer: {type: adamw, lr: 0.002}
train: {batch_size: 32, steps: 200}
)";

struct Losses {
  std::vector<double> losses;
  double accuracy = 0;
};

Losses train_digits(const OutputFolder& folder, Settings set) {
  TestRun run(learnable, folder.path("run"), std::move(set));
  run.options.overwrite = true;
  REQUIRE(run() == RunStatus::done);
  Losses result;
  for (const StepEvent& event : run.events.steps) result.losses.push_back(event.loss);
  REQUIRE(run.events.evaluations.size() >= 1);
  result.accuracy = run.events.evaluations.back().accuracy.value();
  return result;
}

}  // namespace

TEST_CASE("losses over 200 steps stay near those of f32, and the accuracy on digits is not lower by half a point") {
  const OutputFolder folder;
  const Losses expected = train_digits(folder, {});
  REQUIRE(expected.losses.size() == 200);
  struct Technique {
    Settings set;
    double tolerance;  ///< of the mean absolute difference of losses; of the largest ten times that
  };
  const std::vector<Technique> techniques = {
      {{"train.amp=bf16"}, 0.02},
      {{"train.amp=fp16"}, 0.02},
      {{"memory.moments=8bit"}, 0.02},
      {{"train.amp=bf16", "memory.gradients=16bit"}, 0.02},
      {{"train.amp=bf16", "memory.master_weights=false"}, 0.05},
      {{"train.amp=bf16", "memory.master_weights=false", "memory.gradients=16bit", "memory.moments=8bit",
        "memory.update=in_backward"},
       0.05},
      {{"memory.chunked_loss=5"}, 1e-4},
      {{"train.batch_size=8", "train.accumulation_steps=4"}, 1e-3},
  };
  for (const Technique& technique : techniques) {
    INFO(technique.set.front() << ", " << technique.set.back());
    const Losses actual = train_digits(folder, technique.set);
    REQUIRE(actual.losses.size() == expected.losses.size());
    double mean = 0;
    double largest = 0;
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      const double difference = std::fabs(actual.losses[i] - expected.losses[i]);
      mean += difference / static_cast<double>(expected.losses.size());
      largest = std::max(largest, difference);
    }
    CHECK(mean < technique.tolerance);
    CHECK(largest < 10 * technique.tolerance);
    CHECK(actual.accuracy >= expected.accuracy - 0.005);
  }
}

TEST_CASE("a loss scale that overflows skips updates, is halved each time, and is told") {
  const OutputFolder folder;
  TestRun run(learnable, folder.path("run"),
              {"train.amp=fp16", "train.steps=40", "train.loss_scale.initial=1099511627776"});
  REQUIRE(run() == RunStatus::done);
  double scale = 0x1p40;
  std::int64_t num_skipped = 0;
  for (const StepEvent& event : run.events.steps) {
    REQUIRE(event.loss_scale.has_value());
    if (event.skipped) {
      ++num_skipped;
      scale /= 2;
    }
    CHECK(*event.loss_scale == scale);
  }
  CHECK(num_skipped > 5);
  CHECK(run.events.steps.front().skipped);
  CHECK_FALSE(run.events.steps.back().skipped);
  CHECK(run.events.ends.back().skipped_updates == num_skipped);
  CHECK(run.events.steps.back().loss < run.events.steps.front().loss);
}

TEST_CASE("the loss scale grows after its interval of good steps") {
  const OutputFolder folder;
  TestRun run(learnable, folder.path("run"),
              {"train.amp=fp16", "train.steps=30", "train.loss_scale={initial: 256, growth: 4, interval: 10}"});
  REQUIRE(run() == RunStatus::done);
  CHECK(run.events.steps[8].loss_scale == 256);
  CHECK(run.events.steps[9].loss_scale == 1024);
  CHECK(run.events.steps[19].loss_scale == 4096);
  CHECK(run.events.steps[29].loss_scale == 16384);
}

TEST_CASE("fp16 with accumulation, clipping and checkpointing goes on bit for bit after a resume, skipped steps too") {
  const OutputFolder folder;
  for (const TechniqueNetwork& network : technique_networks()) {
    INFO(network.name);
    const Settings set = {"name=resumed",
                          "train.amp=fp16",
                          "train.batch_size=5",
                          "train.steps=20",
                          "train.clip_norm=0.5",
                          "train.checkpointing=sqrt",
                          "memory.allocator=planned",
                          "train.accumulation_steps=2",
                          "train.loss_scale={initial: 1e9, interval: 3}",
                          "optimizer={type: adamw, lr: 0.01}"};
    TestRun whole(network.yaml, folder.path("whole"), set);
    whole.options.overwrite = true;
    REQUIRE(whole() == RunStatus::done);
    CHECK(whole.events.ends.back().skipped_updates > 0);

    TestRun first(network.yaml, folder.path("parts"), set);
    first.options.overwrite = true;
    first.events.interrupt_after = 7;
    REQUIRE(first() == RunStatus::interrupted);
    TestRun second(network.yaml, folder.path("parts"), set);
    second.options.resume = true;
    REQUIRE(second() == RunStatus::done);
    CHECK(same_file(folder, "whole", "parts", 20, "model.safetensors"));
    CHECK(same_file(folder, "whole", "parts", 20, "optimizer.safetensors"));
    CHECK(second.events.steps.back().loss_scale == whole.events.steps.back().loss_scale);
  }
}

TEST_CASE("a run in fp16 whose weights are lost ends as diverged, not as one that skips forever") {
  const OutputFolder folder;
  TestRun run(learnable, folder.path("run"), {"train.amp=fp16", "optimizer={type: sgd, lr: 1e30}"});
  CHECK(run() == RunStatus::diverged);
  REQUIRE(run.events.divergences.size() == 1);
}

TEST_CASE("a bf16 checkpoint without masters holds bf16 weights and can be continued") {
  const OutputFolder folder;
  const Settings set = {"train.amp=bf16", "memory.master_weights=false", "train.steps=10"};
  TestRun whole(learnable, folder.path("whole"), set);
  REQUIRE(whole() == RunStatus::done);
  TestRun first(learnable, folder.path("parts"), set);
  first.events.interrupt_after = 4;
  REQUIRE(first() == RunStatus::interrupted);
  TestRun second(learnable, folder.path("parts"), set);
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  CHECK(same_file(folder, "whole", "parts", 10, "model.safetensors"));
  const std::string header = file_bytes(checkpoint_file(folder.path("whole"), 10, "model.safetensors")).substr(0, 400);
  CHECK(header.find("BF16") != std::string::npos);
}

}  // namespace trainer
