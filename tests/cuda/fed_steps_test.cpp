// Note [Fed steps] in engine/device/step_feed.h and Note [Steps at once] in engine/train/executor.h, on a device that
// puts everything off as long as it may.

#include <catch2/catch.hpp>

#include "engine/errors.h"
#include "tests/cuda/emulated_device.h"
#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

using Overrides = std::vector<std::string>;

/// A run whose steps are started several at once, one by one, or as if all were long.
struct FedRun {
  FedRun(const OutputFolder& folder, const std::string& name, Overrides overrides, double short_step_seconds)
      : device(cuda::make_emulated_device()) {
    overrides.insert(overrides.begin(), "train.accumulation_steps=1");
    run = std::make_unique<TestRun>(small_experiment, folder.path(name), std::move(overrides));
    run->options.short_step_seconds = short_step_seconds;
    device.records = true;
  }
  RunStatus operator()() { return (*run)(device); }

  WrappedDevice device;
  std::unique_ptr<TestRun> run;
};

constexpr double all_are_short = 1e9, none_is_short = 0;

void check_same_events(const TestRun& run, const TestRun& expected) {
  REQUIRE(run.events.steps.size() == expected.events.steps.size());
  for (std::size_t i = 0; i < run.events.steps.size(); ++i) {
    const StepEvent &event = run.events.steps[i], &other = expected.events.steps[i];
    INFO("step " << i + 1);
    CHECK(event.step == other.step);
    CHECK(event.epoch == other.epoch);
    CHECK(event.loss == other.loss);
    CHECK(event.learning_rate == other.learning_rate);
    CHECK(event.samples == other.samples);
    CHECK(event.loss_scale == other.loss_scale);
    CHECK(event.skipped == other.skipped);
    CHECK(event.memory.step == other.memory.step);
  }
  REQUIRE(run.events.evaluations.size() == expected.events.evaluations.size());
  for (std::size_t i = 0; i < run.events.evaluations.size(); ++i) {
    CHECK(run.events.evaluations[i].step == expected.events.evaluations[i].step);
    CHECK(run.events.evaluations[i].loss == expected.events.evaluations[i].loss);
  }
  CHECK(run.events.checkpoints.size() == expected.events.checkpoints.size());
}

}  // namespace

TEST_CASE("Steps that are started several at once give the events and files of others, bit for bit") {
  const Overrides overrides = GENERATE(
      Overrides{}, Overrides{"memory.allocator=planned"}, Overrides{"data.drop_last=true", "checkpoint.every=7"},
      Overrides{"train.amp=fp16"}, Overrides{"loss.class_weights=[1, 2, 0.5, 1]", "train.clip_norm=0.5"},
      Overrides{"memory.update=in_backward", "data.validation_samples=0"});
  const OutputFolder folder;
  FedRun queued(folder, "queued", overrides, none_is_short);
  queued.run->experiment.device.cuda_graph = false;
  REQUIRE(queued() == RunStatus::done);
  FedRun single(folder, "single", overrides, none_is_short);
  REQUIRE(single() == RunStatus::done);
  FedRun at_once(folder, "at-once", overrides, all_are_short);
  REQUIRE(at_once() == RunStatus::done);
  check_same_events(*single.run, *queued.run);
  check_same_events(*at_once.run, *queued.run);
  for (const char* name : {"single", "at-once"}) {
    INFO(name);
    CHECK(same_file(folder, name, "queued", 40, "model.safetensors"));
    CHECK(same_file(folder, name, "queued", 40, "optimizer.safetensors"));
  }
}

TEST_CASE("Four short steps are started at once where nothing is asked between them") {
  const OutputFolder folder;
  const Overrides overrides = {"data.validation_samples=0", "data.drop_last=true"};
  FedRun at_once(folder, "at-once", overrides, all_are_short);
  REQUIRE(at_once() == RunStatus::done);
  FedRun single(folder, "single", overrides, none_is_short);
  REQUIRE(single() == RunStatus::done);
  CHECK(single.device.num_marks == 40);
  // The first steps, which take segments, are queued alone; then comes nine times four, and what is left at the end.
  const PassCounts& passes = at_once.run->events.ends.at(0).passes;
  CHECK(passes.replayed >= 38);
  CHECK(passes.replayed + passes.moved == 40);
  CHECK(at_once.device.num_marks >= 1 + 9);
  CHECK(at_once.device.num_marks <= 2 + 9 + 1);
}

TEST_CASE("An interrupted run finishes the steps that are queued, and resumes bit for bit") {
  const int interrupt_after = GENERATE(3, 12, 17);
  const OutputFolder folder;
  FedRun whole(folder, "whole", {}, all_are_short);
  REQUIRE(whole() == RunStatus::done);
  FedRun first(folder, "run", {}, all_are_short);
  first.run->events.interrupt_after = interrupt_after;
  REQUIRE(first() == RunStatus::interrupted);
  CHECK(first.run->events.steps.size() < static_cast<std::size_t>(interrupt_after + 8));
  FedRun second(folder, "run", {}, all_are_short);
  second.run->options.resume = true;
  REQUIRE(second() == RunStatus::done);
  CHECK(same_file(folder, "run", "whole", 40, "model.safetensors"));
  CHECK(same_file(folder, "run", "whole", 40, "optimizer.safetensors"));
}

TEST_CASE("A loss that is not finite ends a run at its own step, though more were started with it") {
  const OutputFolder folder;
  const Overrides overrides = {"optimizer.type=sgd", "optimizer.lr=1e3", "schedule.type=constant",
                               "schedule.warmup_steps=0"};
  FedRun waiting(folder, "waiting", overrides, none_is_short);
  waiting.run->experiment.device.cuda_graph = false;
  REQUIRE(waiting() == RunStatus::diverged);
  FedRun at_once(folder, "at-once", overrides, all_are_short);
  REQUIRE(at_once() == RunStatus::diverged);
  REQUIRE(at_once.run->events.divergences.size() == 1);
  const DivergedEvent &event = at_once.run->events.divergences[0], &expected = waiting.run->events.divergences.at(0);
  CHECK(event.step > 2);  // the first two are not fed
  CHECK(event.step == expected.step);
  CHECK(event.layer == expected.layer);
  CHECK(event.tensor == expected.tensor);
}

TEST_CASE("What fed steps begin with is queued within a recording only, and each takes the next place") {
  const auto device = cuda::make_emulated_device();
  const auto feed = device->make_step_feed({.num_places = 3, .input_bytes = 64, .result_bytes = 16});
  double values[2] = {};
  const FedInput input{values, 0, sizeof(values)};
  const FedResult result{values, sizeof(values)};
  CHECK_THROWS_AS(feed->begin_step({&input, 1}), InternalError);
  CHECK_THROWS_AS(feed->end_step({&result, 1}), InternalError);
  std::string obstacle;
  const auto two_steps = device->record(
      [&] {
        for (int i = 0; i < 2; ++i) {
          feed->begin_step({&input, 1});
          feed->end_step({&result, 1});
        }
      },
      obstacle);
  REQUIRE(two_steps != nullptr);
  double next = 1;
  for (int round = 0; round < 4; ++round) {
    int places[2] = {};
    for (int i = 0; i < 2; ++i) {
      places[i] = (2 * round + i) % 3;
      const double written[2] = {next, next + 0.5};
      std::memcpy(feed->input(places[i]), written, sizeof(written));
      next += 1;
    }
    two_steps->replay();
    device->wait_for(device->set_mark());
    for (int i = 0; i < 2; ++i) {
      double read[2] = {};
      std::memcpy(read, feed->results(places[i]), sizeof(read));
      CHECK(read[0] == next - 2 + i);
      CHECK(read[1] == next - 1.5 + i);
    }
  }
}
