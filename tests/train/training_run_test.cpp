#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/memory/caching_allocator.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/learning_rate.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

TEST_CASE("A run tells its start, every step, every evaluation and its end") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"));
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.starts.size() == 1);
  const StartEvent& start = run.events.starts[0];
  CHECK(start.device_kind == "cpu");
  CHECK(start.total_steps == 40);
  CHECK(start.steps_per_epoch == 5);
  CHECK(start.num_parameters == 6 * 2 * 9 + 6 + 6 + 6 + 4 * 216 + 4);
  REQUIRE(run.events.steps.size() == 40);
  for (std::size_t i = 0; i < 40; ++i) {
    const StepEvent& step = run.events.steps[i];
    CHECK(step.step == static_cast<std::int64_t>(i) + 1);
    CHECK(step.epoch == static_cast<std::int64_t>(i) / 5 + 1);
    CHECK(step.samples == (i % 5 == 4 ? 4 : 10));
    CHECK(step.learning_rate == learning_rate(run.experiment.schedule, 0.01, step.step, 40, 5));
    CHECK(step.memory.step.peak_allocated >= step.memory.step.allocated);
    CHECK(step.memory.step.reserved >= step.memory.step.allocated);
    CHECK(step.memory.device_used > 0);
  }
  CHECK(run.events.evaluations.size() == 5);
  const EndEvent& end = run.events.ends.at(0);
  CHECK(end.status == "done");
  CHECK(end.steps == 40);
  CHECK(end.samples == 8 * 44);
  double data_seconds = 0;
  for (const StepEvent& step : run.events.steps) {
    CHECK(step.data_seconds >= 0);
    data_seconds += step.data_seconds;
  }
  CHECK(data_seconds > 0);
  CHECK(end.data_seconds == Approx(data_seconds));
  CHECK(end.data_seconds < end.training_seconds);
  CHECK(end.accuracy.has_value());
  CHECK_FALSE(end.top5.has_value());  // four classes
  std::int64_t sum = 0;
  for (const std::int64_t bytes : end.peak_by_category) sum += bytes;
  CHECK(sum == end.peak_allocated);
  CHECK(start.planned_by_category == end.peak_by_category);
  CHECK(start.teller.pid == ::getpid());
  CHECK_FALSE(start.teller.host.empty());
  CHECK(start.teller.begin_seconds > 1.7e9);
  CHECK(end.last_checkpoint == RunDirectory(folder.path("run")).checkpoint_path(40));
  CHECK(run.events.steps.back().loss < run.events.steps.front().loss);
}

TEST_CASE("Every step and evaluation holds exactly what the plan predicts") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"), {"train.clip_norm=0.5"});
  const std::unique_ptr<Device> device = make_cpu_device(1);
  REQUIRE(run(*device) == RunStatus::done);
  const Program program = compile(run.experiment, run.data.description, *device);
  const RunSchedule schedule(run.experiment, run.data.description);
  const MemoryPlan plan = make_memory_plan(program, schedule, run.events.starts[0].capacity);
  for (const StepEvent& step : run.events.steps) {
    const StepMemory* planned = plan.find(step.step, false);
    REQUIRE(planned != nullptr);
    CHECK(*planned == step.memory.step);
  }
  for (const EvalEvent& evaluation : run.events.evaluations) {
    const StepMemory* planned = plan.find(evaluation.step, true);
    REQUIRE(planned != nullptr);
    CHECK(*planned == evaluation.memory.step);
  }
  CHECK(plan.peak_allocated == run.events.ends[0].peak_allocated);
  CHECK(plan.peak_reserved == run.events.ends[0].peak_reserved);
}

TEST_CASE("Accumulation equals the large batch, whatever the loss divides by") {
  // No batch norm and no dropout: their result depends on the micro-batch.
  const std::string plain = R"(
name: plain
seed: 5
data: {type: synthetic, shape: [9], classes: 3, samples: 26}
model: {layers: [{linear: {out: 8}}, tanh, {linear: {out: 3}}]}
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {steps: 8}
)";
  const auto losses = [&](std::vector<std::string> overrides, const char* size) {
    const OutputFolder folder;
    overrides.emplace_back(size);
    if (std::string(size) == "train.batch_size=4") overrides.emplace_back("train.accumulation_steps=3");
    TestRun run(plain, folder.path("run"), overrides);
    REQUIRE(run() == RunStatus::done);
    std::vector<double> result;
    for (const StepEvent& step : run.events.steps) result.push_back(step.loss);
    return result;
  };
  const auto overrides = GENERATE(std::vector<std::string>{},
                                  std::vector<std::string>{"loss={type: cross_entropy, class_weights: [0.2, 1, 3]}"},
                                  std::vector<std::string>{"loss={type: cross_entropy, label_smoothing: 0.1}"},
                                  std::vector<std::string>{"loss={type: cross_entropy, ignore_index: 1}"},
                                  std::vector<std::string>{"loss=[{type: cross_entropy, class_weights: [0.2, 1, 3]}, "
                                                           "{type: cross_entropy, weight: 0.5}]"},
                                  std::vector<std::string>{"loss=mse", "data.classes=null", "data.target_type=numeric",
                                                           "model.layers.2={linear: {out: 1}}"});
  const std::vector<double> large = losses(overrides, "train.batch_size=12");
  const std::vector<double> accumulated = losses(overrides, "train.batch_size=4");
  REQUIRE(large.size() == accumulated.size());
  for (std::size_t i = 0; i < large.size(); ++i) CHECK(accumulated[i] == Approx(large[i]).epsilon(1e-4));
  CHECK(large.front() != large.back());
}

TEST_CASE("Early stopping ends the run after its patience and the best checkpoint stays") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {
      "train.eval_every=1", "train.early_stopping={patience: 3, min_delta: 100}", "checkpoint.keep=1"};
  TestRun run(small_experiment, folder.path("run"), overrides);
  REQUIRE(run() == RunStatus::done);
  CHECK(run.events.steps.size() == 4);  // the first evaluation sets the mark, three do not pass it
  CHECK(run.events.ends[0].stopped_early);
  TestRun resumed(small_experiment, folder.path("run"), overrides);
  resumed.options.resume = true;
  REQUIRE(resumed() == RunStatus::done);
  CHECK(resumed.events.steps.empty());
}

TEST_CASE("The best evaluation is chosen by accuracy where asked") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"), {"train.eval_every=1", "checkpoint.best=accuracy"});
  REQUIRE(run() == RunStatus::done);
  double best = -1;
  for (const EvalEvent& event : run.events.evaluations) {
    CHECK(event.best == (event.accuracy.value() > best));
    best = std::max(best, event.accuracy.value());
  }
  CHECK(run.events.ends[0].best_value == best);
}

TEST_CASE("Top-5 accuracy counts where there are more classes") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"),
              {"data.classes=10", "model.layers.5.linear.out=10", "train.steps=20"});
  REQUIRE(run() == RunStatus::done);
  for (const EvalEvent& event : run.events.evaluations) {
    REQUIRE(event.top5.has_value());
    CHECK(*event.top5 >= *event.accuracy);
    CHECK(*event.top5 <= 1);
  }
}

TEST_CASE("A loss that is not finite stops the run before the update and names where it began") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"),
              {"optimizer={type: sgd, lr: 1e30}", "schedule={type: constant}", "checkpoint.every=1",
               "data.validation_samples=0"});
  REQUIRE(run() == RunStatus::diverged);
  REQUIRE(run.events.divergences.size() == 1);
  const DivergedEvent& event = run.events.divergences[0];
  CHECK(event.step == run.events.steps.back().step + 1);
  CHECK_FALSE(std::isfinite(event.loss));
  CHECK(event.layer != "loss");
  CHECK_FALSE(event.tensor.empty());
  CHECK(run.events.ends[0].status == "diverged");
  // The last checkpoint is finite and readable.
  const std::vector<std::int64_t> steps = RunDirectory(folder.path("run")).checkpoint_steps();
  REQUIRE_FALSE(steps.empty());
  CHECK_NOTHROW(read_checkpoint(RunDirectory(folder.path("run")).checkpoint_path(steps.back())));
  CHECK(steps.back() < event.step);
}

TEST_CASE("A step whose samples all have weight 0 teaches nothing, is warned of once, and the run goes on") {
  const OutputFolder folder;
  const std::string yaml = R"(
name: weights
data: {type: synthetic, shape: [3], classes: 2, samples: 12, validation_samples: 4}
model: {layers: [{linear: {out: 2}}]}
loss: {type: cross_entropy, class_weights: [1, 0]}
train: {batch_size: 1}
)";
  TestRun run(yaml, folder.path("run"));
  run.num_warnings = 1;
  REQUIRE(run() == RunStatus::done);
  CHECK_THAT(run.events.warnings.at(0).message, Catch::Contains("classes of weight 0 in loss.class_weights"));
  const auto is_zero = [](const StepEvent& step) { return step.loss == 0; };
  const std::ptrdiff_t num_zero = std::count_if(run.events.steps.begin(), run.events.steps.end(), is_zero);
  CHECK(num_zero > 0);
  CHECK(num_zero < 12);
}

namespace {

constexpr const char* numbers_experiment = R"(
name: numbers
seed: 1
data: {type: synthetic, shape: [2], samples: 20, target_type: numeric, shuffle: false}
model: {layers: [{linear: {out: 4, name: first}}, silu, {linear: {out: 1, name: second}}]}
loss: mse
optimizer: {type: sgd, lr: 0.01}
train: {batch_size: 2, steps: 30, accumulation_steps: 2}
)";

}  // namespace

TEST_CASE("A value of the data that is not finite is told from a network that diverged") {
  const OutputFolder folder;
  TestRun run(numbers_experiment, folder.path("run"));
  run.data = numbers_with(std::numeric_limits<float>::quiet_NaN(), 11);
  REQUIRE(run() == RunStatus::diverged);
  CHECK(run.events.divergences.at(0).step == 3);  // samples 8 to 11
  CHECK(run.events.divergences.at(0).layer == "input");
}

TEST_CASE("Activations that overflow are blamed on the layer that made them") {
  const OutputFolder folder;
  // Of 64 weights with deviation 1 some exceed 1.2, and 3e38 · 1.2 exceeds the largest float.
  TestRun run(numbers_experiment, folder.path("run"), {"model.layers.0.linear.out=64", "model.init=kaiming_normal"});
  run.data = numbers_with(3e38F, 11);
  REQUIRE(run() == RunStatus::diverged);
  CHECK(run.events.divergences.at(0).step == 3);
  CHECK_THAT(run.events.divergences.at(0).layer, Contains("first"));
}

TEST_CASE("A run that is interrupted before its first step can be resumed") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"));
  run.interruption.requests = 1;
  REQUIRE(run() == RunStatus::interrupted);
  CHECK(run.events.steps.empty());
  TestRun resumed(small_experiment, folder.path("run"));
  resumed.options.resume = true;
  CHECK(resumed() == RunStatus::done);
}

TEST_CASE("An output folder that cannot be made is an error of files") {
  const OutputFolder folder;
  write_bytes(folder.path("file"), "x");
  TestRun run(small_experiment, folder.path("file") + "/run");
  CHECK_THROWS_AS(run(), DataError);
}
