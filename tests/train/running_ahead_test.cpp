#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

RunStatus run_ahead(TestRun& run, WrappedDevice& device) {
  device.is_asynchronous = true;
  return run(device);
}

}  // namespace

TEST_CASE("A run whose steps are queued ahead gives the losses and files of one that waits, bit for bit") {
  const std::vector<std::string> overrides =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"train.accumulation_steps=1"},
               std::vector<std::string>{"train.accumulation_steps=3", "train.eval_every=5"},
               std::vector<std::string>{"data.drop_last=true", "checkpoint.every=7"},
               std::vector<std::string>{"data.validation_samples=0", "train.clip_norm=0.5"},
               std::vector<std::string>{"loss.class_weights=[1, 2, 0.5, 1]"});
  const OutputFolder folder;
  TestRun waiting(small_experiment, folder.path("waiting"), overrides);
  REQUIRE(waiting() == RunStatus::done);
  TestRun ahead(small_experiment, folder.path("ahead"), overrides);
  WrappedDevice device(make_cpu_device(1));
  REQUIRE(run_ahead(ahead, device) == RunStatus::done);

  REQUIRE(ahead.events.steps.size() == waiting.events.steps.size());
  for (std::size_t i = 0; i < ahead.events.steps.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(ahead.events.steps[i].step == waiting.events.steps[i].step);
    CHECK(ahead.events.steps[i].loss == waiting.events.steps[i].loss);
  }
  REQUIRE(ahead.events.evaluations.size() == waiting.events.evaluations.size());
  for (std::size_t i = 0; i < ahead.events.evaluations.size(); ++i) {
    CHECK(ahead.events.evaluations[i].step == waiting.events.evaluations[i].step);
    CHECK(ahead.events.evaluations[i].loss == waiting.events.evaluations[i].loss);
  }
  REQUIRE(ahead.events.checkpoints.size() == waiting.events.checkpoints.size());
  CHECK(same_file(folder, "ahead", "waiting", 40, "model.safetensors"));
  CHECK(same_file(folder, "ahead", "waiting", 40, "optimizer.safetensors"));
}

TEST_CASE("A run that is queued ahead does not wait for everything in a step that repeats itself") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"), {"data.validation_samples=0", "data.drop_last=true"});
  WrappedDevice device(make_cpu_device(1));
  REQUIRE(run_ahead(run, device) == RunStatus::done);
  const std::int64_t with_40_steps = device.num_synchronizations;
  TestRun longer(small_experiment, folder.path("longer"),
                 {"data.validation_samples=0", "data.drop_last=true", "train.steps=80"});
  WrappedDevice other(make_cpu_device(1));
  REQUIRE(run_ahead(longer, other) == RunStatus::done);
  CHECK(other.num_synchronizations == with_40_steps);
}

TEST_CASE("An interrupted run that was queued ahead saves the last step that was computed, and resumes bit for bit") {
  const int interrupt_after = GENERATE(3, 7, 8, 15);
  const OutputFolder folder;
  TestRun whole(small_experiment, folder.path("whole"));
  REQUIRE(whole() == RunStatus::done);
  TestRun first(small_experiment, folder.path("run"));
  first.events.interrupt_after = interrupt_after;
  WrappedDevice device(make_cpu_device(1));
  REQUIRE(run_ahead(first, device) == RunStatus::interrupted);
  TestRun second(small_experiment, folder.path("run"));
  second.options.resume = true;
  WrappedDevice other(make_cpu_device(1));
  REQUIRE(run_ahead(second, other) == RunStatus::done);
  CHECK(same_file(folder, "run", "whole", 40, "model.safetensors"));
  CHECK(same_file(folder, "run", "whole", 40, "optimizer.safetensors"));
}

TEST_CASE("A loss that is not finite ends a run that was queued ahead at its own step, with the layer named") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"optimizer.type=sgd", "optimizer.lr=1e30", "schedule.type=constant",
                                              "schedule.warmup_steps=0"};
  TestRun waiting(small_experiment, folder.path("waiting"), overrides);
  REQUIRE(waiting() == RunStatus::diverged);
  TestRun ahead(small_experiment, folder.path("ahead"), overrides);
  WrappedDevice device(make_cpu_device(1));
  REQUIRE(run_ahead(ahead, device) == RunStatus::diverged);
  REQUIRE(ahead.events.divergences.size() == 1);
  CHECK(ahead.events.divergences[0].step == waiting.events.divergences.at(0).step);
  CHECK(ahead.events.divergences[0].layer == waiting.events.divergences[0].layer);
  CHECK(ahead.events.divergences[0].tensor == waiting.events.divergences[0].tensor);
}
