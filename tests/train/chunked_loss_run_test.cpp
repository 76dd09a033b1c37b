#include <cmath>

#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

constexpr std::int64_t batch_size = 24, classes = 5000;
constexpr std::int64_t logits_bytes = batch_size * classes * 4;

const char* const many_classes = R"(
name: many-classes
seed: 3
data: {type: synthetic, shape: [13], classes: 5000, samples: 64, validation_samples: 40}
model: {layers: [{linear: {out: 16}}, tanh, {linear: {out: 5000}}]}
optimizer: {type: sgd, lr: 0.5, momentum: 0.9}
train: {batch_size: 24, steps: 200, eval_every: 50}
)";

struct LossOutcome {
  std::vector<double> losses, accuracies, top5;
  std::int64_t peak_requested = 0, planned_peak_requested = 0;
};

LossOutcome run_with(std::int64_t chunk_rows, const std::vector<std::string>& overrides = {}) {
  const OutputFolder folder;
  TestRun run(many_classes, folder.path("run"), overrides);
  run.experiment.memory.chunked_loss = chunk_rows;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  REQUIRE(run(*device) == RunStatus::done);
  LossOutcome outcome;
  for (const StepEvent& step : run.events.steps) {
    outcome.losses.push_back(step.loss);
    outcome.peak_requested = std::max(outcome.peak_requested, step.memory.step.peak_requested);
  }
  for (const EvalEvent& evaluation : run.events.evaluations) {
    outcome.losses.push_back(evaluation.loss);
    outcome.accuracies.push_back(evaluation.accuracy.value());
    outcome.top5.push_back(evaluation.top5.value());
  }
  const Program program = compile(run.experiment, run.data.description, *device);
  outcome.planned_peak_requested =
      make_memory_plan(program, RunSchedule(run.experiment, run.data.description), unlimited_capacity).peak_requested;
  return outcome;
}

void check_alike(const LossOutcome& chunked, const LossOutcome& whole) {
  REQUIRE(chunked.losses.size() == whole.losses.size());
  for (std::size_t i = 0; i < whole.losses.size(); ++i)
    CHECK(chunked.losses[i] == Approx(whole.losses[i]).epsilon(1e-4).margin(1e-5));
  CHECK(chunked.accuracies == whole.accuracies);
  CHECK(chunked.top5 == whole.top5);
}

}  // namespace

TEST_CASE("A loss in chunks trains as one of all logits, without ever holding them") {
  const LossOutcome whole = run_with(0);
  REQUIRE(whole.losses.size() == 204);
  CHECK(whole.losses[199] < whole.losses[0] / 2);
  for (const std::int64_t rows : {1, 7, 64}) {
    INFO("chunks of " << rows);
    const LossOutcome chunked = run_with(rows);
    check_alike(chunked, whole);
    CHECK(chunked.peak_requested == chunked.planned_peak_requested);
    const std::int64_t chunk_bytes = logits_bytes * std::min(rows, batch_size) / batch_size;
    const std::int64_t saved = whole.peak_requested - chunked.peak_requested;
    INFO("saved " << saved << " of " << logits_bytes << " bytes of logits");
    CHECK(std::llabs(saved - (logits_bytes - chunk_bytes)) < logits_bytes / 20);
  }
}

TEST_CASE("A loss in chunks trains alike with label smoothing and class weights") {
  std::string weights = "0.5";
  for (std::int64_t i = 1; i < classes; ++i) weights += ", " + std::to_string(1 + i % 3);
  const std::vector<std::string> loss = {
      "loss={type: cross_entropy, label_smoothing: 0.1, class_weights: [" + weights + "]}", "train.steps=60"};
  check_alike(run_with(5, loss), run_with(0, loss));
}

TEST_CASE("A loss in chunks adds up over micro-batches") {
  const std::vector<std::string> accumulation = {"train.accumulation_steps=2", "train.batch_size=12", "train.steps=30"};
  check_alike(run_with(5, accumulation), run_with(0, accumulation));
}
