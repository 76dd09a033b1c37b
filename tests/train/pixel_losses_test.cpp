#include <cmath>
#include <numeric>

#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/datasets/array_files.h"
#include "tests/datasets/data_files.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

// Losses of pixels, sums of losses, and what evaluations count.

namespace {

const std::string pixel_network = R"(
name: pixels
seed: 3
data: {type: synthetic, shape: [8, 6, 2], target_shape: [8, 6], classes: 3, samples: 22, validation_samples: 9}
model: {layers: [conv2d: {out: 6, kernel: 3, padding: 1}, tanh, conv2d: {out: 3, kernel: 1}]}
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {batch_size: 5, steps: 12, eval_every: 4}
)";
const std::vector<std::string> image_targets = {"data.classes=null", "data.target_type=numeric",
                                                "data.target_shape=[8, 6, 2]",
                                                "model.layers.2={conv2d: {out: 2, kernel: 1}}", "optimizer.lr=0.05"};

std::vector<std::string> both_of(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::string cross_entropy_and_dice =
    "loss=[{type: cross_entropy, ignore_index: 1}, {type: dice, weight: 0.5, ignore_index: 1}]";

RecordingSink pixel_events(const std::vector<std::string>& overrides, const std::string& yaml = pixel_network) {
  const OutputFolder folder;
  TestRun run(yaml, folder.path("run"), overrides);
  REQUIRE(run() == RunStatus::done);
  return run.events;
}

}  // namespace

TEST_CASE("losses of pixels and images, and sums of them, train in exactly the memory that was planned") {
  const auto overrides = GENERATE_COPY(
      std::vector<std::string>{}, std::vector<std::string>{"loss.ignore_index=1"},
      std::vector<std::string>{"loss=dice"}, std::vector<std::string>{cross_entropy_and_dice},
      both_of(image_targets, {"loss=l1"}), both_of(image_targets, {"loss={smooth_l1: {beta: 0.2}}"}),
      both_of(image_targets, {"loss=dice"}), both_of(image_targets, {"loss=[mse, {type: l1, weight: 0.1}]"}));
  const auto technique =
      GENERATE(std::string("train.amp=off"), std::string("train.amp=bf16"), std::string("train.amp=fp16"),
               std::string("train.accumulation_steps=2"), std::string("memory.allocator=planned"),
               std::string("train.checkpointing=sqrt"), std::string("memory.update=in_backward"));
  INFO(technique << ", " << (overrides.empty() ? "" : overrides.back()));
  const OutputFolder folder;
  TestRun run(pixel_network, folder.path("run"), both_of(overrides, {technique}));
  const std::unique_ptr<Device> device = make_cpu_device(1);
  REQUIRE(run(*device) == RunStatus::done);
  const Program program = compile(run.experiment, run.data.description, *device);
  const MemoryPlan plan =
      make_memory_plan(program, RunSchedule(run.experiment, run.data.description), run.events.starts[0].capacity);
  for (const StepEvent& step : run.events.steps) {
    const StepMemory* const planned = plan.find(step.step, false);
    REQUIRE(planned != nullptr);
    CHECK(*planned == step.memory.step);
  }
  REQUIRE(run.events.evaluations.size() == 3);
  for (const EvalEvent& evaluation : run.events.evaluations) {
    const StepMemory* const planned = plan.find(evaluation.step, true);
    REQUIRE(planned != nullptr);
    CHECK(*planned == evaluation.memory.step);
  }
  CHECK(run.events.evaluations.back().loss < run.events.steps.front().loss);
}

TEST_CASE("the loss of a sum is its terms, each times its weight, and their gradients are added") {
  const RecordingSink sum = pixel_events({cross_entropy_and_dice});
  const RecordingSink single = pixel_events({"loss={type: cross_entropy, ignore_index: 1}"});
  REQUIRE(sum.steps.size() == 12);
  for (const StepEvent& step : sum.steps) {
    REQUIRE(step.terms.count == 2);
    CHECK(step.loss == Approx(step.terms.values[0] + 0.5 * step.terms.values[1]).epsilon(1e-12));
  }
  for (const EvalEvent& evaluation : sum.evaluations)
    CHECK(evaluation.loss == Approx(evaluation.terms.values[0] + 0.5 * evaluation.terms.values[1]).epsilon(1e-12));
  CHECK(single.steps[0].terms.count == 0);
  CHECK(single.steps[0].loss == sum.steps[0].terms.values[0]);  // before any update
  CHECK(single.steps[5].loss != sum.steps[5].terms.values[0]);
  // A loss and its parts train alike.
  const RecordingSink whole = pixel_events({"loss={type: cross_entropy, label_smoothing: 0.1}"});
  const RecordingSink parts =
      pixel_events({"loss=[{type: cross_entropy, label_smoothing: 0.1, weight: 0.25}, {type: cross_entropy, "
                    "label_smoothing: 0.1, weight: 0.75}]"});
  for (std::size_t i = 0; i < whole.steps.size(); ++i)
    CHECK(parts.steps[i].loss == Approx(whole.steps[i].loss).epsilon(1e-4));
}

TEST_CASE("accumulated pixels count as those of one batch, however many of each are ignored") {
  for (const std::string& loss :
       {std::string("loss={type: cross_entropy, ignore_index: 1}"),
        std::string("loss={type: cross_entropy, ignore_index: 0, class_weights: [5, 0.2, 3], label_smoothing: 0.1}"),
        std::string("loss=[{type: cross_entropy, ignore_index: 2, weight: 0.3}, {type: cross_entropy, class_weights: "
                    "[0.2, 1, 3], ignore_index: 2}]")}) {
    const RecordingSink large = pixel_events({loss, "train.batch_size=15"});
    const RecordingSink accumulated = pixel_events({loss, "train.batch_size=5", "train.accumulation_steps=3"});
    REQUIRE(large.steps.size() == accumulated.steps.size());
    for (std::size_t i = 0; i < large.steps.size(); ++i)
      CHECK(accumulated.steps[i].loss == Approx(large.steps[i].loss).epsilon(1e-4));
    CHECK(large.steps.front().loss != large.steps.back().loss);
  }
}

TEST_CASE("a confusion matrix counts each pixel of the validation data once, whatever the batches") {
  const RecordingSink counted = pixel_events({});
  const CountedMetrics& metrics = counted.evaluations.back().counted;
  REQUIRE(metrics.confusion.size() == 9);
  CHECK(std::accumulate(metrics.confusion.begin(), metrics.confusion.end(), std::int64_t{0}) == 9 * 8 * 6);
  const std::int64_t right = metrics.confusion[0] + metrics.confusion[4] + metrics.confusion[8];
  // The loss counts what is right by itself.
  CHECK(counted.evaluations.back().accuracy == Approx(static_cast<double>(right) / (9 * 8 * 6)).epsilon(1e-12));
  for (const std::string& batch : {std::string("train.eval_batch_size=1"), std::string("train.eval_batch_size=4"),
                                   std::string("train.eval_batch_size=9")})
    CHECK(pixel_events({batch}).evaluations.back().counted.confusion == metrics.confusion);
  const RecordingSink ignoring = pixel_events({"loss.ignore_index=1"});
  const SharedCounts& of_ignoring = ignoring.evaluations.back().counted.confusion;
  CHECK(of_ignoring[3] + of_ignoring[4] + of_ignoring[5] == 0);
  CHECK(ignoring.ends[0].counted.confusion == of_ignoring);
  // Only where it is wanted.
  CHECK(pixel_events({"train.confusion_matrix=off"}).evaluations.back().counted.confusion.empty());
  CHECK_FALSE(pixel_events({"train.confusion_matrix=off", "checkpoint.best=dice"})
                  .evaluations.back()
                  .counted.confusion.empty());
  CHECK(pixel_events({"train.confusion_matrix=off", "loss=dice"}).evaluations.back().accuracy == std::nullopt);
}

TEST_CASE("classes of samples are counted where asked, also where the logits come in chunks") {
  const std::string samples = R"(
name: samples
data: {type: synthetic, shape: [9], classes: 7, samples: 22, validation_samples: 31}
model: {layers: [{linear: {out: 12}}, tanh, {linear: {out: 7}}]}
train: {batch_size: 5, steps: 9}
)";
  const auto last = [&](const std::vector<std::string>& overrides) {
    return pixel_events(overrides, samples).evaluations.back();
  };
  CHECK(last({}).counted.confusion.empty());
  const EvalEvent counted = last({"train.confusion_matrix=on"});
  CHECK(std::accumulate(counted.counted.confusion.begin(), counted.counted.confusion.end(), std::int64_t{0}) == 31);
  CHECK(last({"train.confusion_matrix=on", "memory.chunked_loss=3"}).counted.confusion == counted.counted.confusion);
  CHECK(last({"train.confusion_matrix=on", "train.amp=bf16", "memory.chunked_loss=3"}).counted.mean_iou.has_value());
}

TEST_CASE("a linear layer over pixels takes their losses some rows at a time") {
  const std::vector<std::string> linear = {"model.layers.2={linear: {out: 3}}", "loss.ignore_index=1"};
  const RecordingSink whole = pixel_events(linear), chunks = pixel_events(both_of(linear, {"memory.chunked_loss=7"}));
  for (std::size_t i = 0; i < whole.steps.size(); ++i)
    CHECK(chunks.steps[i].loss == Approx(whole.steps[i].loss).epsilon(1e-4));
  CHECK(chunks.evaluations.front().counted.confusion.size() == 9);
  const OutputFolder folder;
  TestRun sum(pixel_network, folder.path("run"),
              both_of({"model.layers.2={linear: {out: 3}}", cross_entropy_and_dice}, {"memory.chunked_loss=7"}));
  CHECK_THROWS_WITH(sum(), Catch::Contains("memory.chunked_loss is 7"));
}

TEST_CASE("checkpoints are judged by any metric, and a run ends where it gets no better") {
  for (const std::string& metric : {std::string("accuracy"), std::string("mean_iou"), std::string("dice")}) {
    const RecordingSink run = pixel_events({"checkpoint.best=" + metric, "train.eval_every=1"});
    std::optional<double> best;
    for (const EvalEvent& evaluation : run.evaluations) {
      const std::optional<double> value = metric == "accuracy"   ? evaluation.accuracy
                                          : metric == "mean_iou" ? evaluation.counted.mean_iou
                                                                 : evaluation.counted.dice;
      REQUIRE(value.has_value());
      CHECK(evaluation.best == (!best || *value > *best));
      best = best ? std::max(*best, *value) : *value;
    }
    CHECK(run.ends[0].best_value == best);
  }
  const RecordingSink errors =
      pixel_events(both_of(image_targets, {"loss=l1", "checkpoint.best=mae", "train.eval_every=1"}));
  double least = std::numeric_limits<double>::infinity();
  for (const EvalEvent& evaluation : errors.evaluations) {
    CHECK(evaluation.counted.mae == Approx(evaluation.loss).epsilon(1e-5));  // which l1 is
    CHECK(evaluation.best == (*evaluation.counted.mae < least));
    least = std::min(least, *evaluation.counted.mae);
  }
  const RecordingSink explained =
      pixel_events(both_of(image_targets, {"loss=mse", "checkpoint.best=r2", "train.eval_every=1"}));
  CHECK(explained.ends[0].best_value == explained.evaluations.back().counted.r2);
  const RecordingSink stopped = pixel_events(
      {"checkpoint.best=mean_iou", "train.eval_every=1", "train.early_stopping={patience: 2, min_delta: 2}"});
  CHECK(stopped.steps.size() == 3);
}

TEST_CASE("what the data lacks for the metric of checkpoint.best is told before the run") {
  const auto error_of = [](const std::vector<std::string>& overrides) {
    const OutputFolder folder;
    TestRun run(pixel_network, folder.path("run"), overrides);
    try {
      run();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(error_of({"checkpoint.best=top5"}), Catch::Contains("needs more than 5 classes; the data has 3"));
  CHECK_THAT(error_of({"model.layers.2.conv2d.out=4"}),
             Catch::Contains("the model's output is 5×8×6×4 and the data has 3 classes"));
  CHECK_THAT(error_of({"loss=dice", "model.layers.2.conv2d.out=1"}),
             Catch::Contains("the model's output is 5×8×6×1 and the data has 3 classes"));
  CHECK_THAT(error_of({"loss=[cross_entropy, mse]"}), Catch::Contains("mse needs numbers as targets"));
}

TEST_CASE("a term whose targets are all ignored in a step is told, and leaves the others") {
  const OutputFolder folder;
  TestRun run(pixel_network, folder.path("run"),
              {"loss=[{type: cross_entropy, ignore_index: 0}, {type: dice, ignore_index: 0}]", "train.batch_size=1"});
  std::vector<std::byte> samples(static_cast<std::size_t>(22 * 8 * 6 * 2)), targets;
  for (std::int32_t i = 0; i < 22 * 8 * 6; ++i) {
    const std::int32_t target = i < 8 * 6 * 11 ? 0 : i % 3;
    const auto* const bytes = reinterpret_cast<const std::byte*>(&target);
    targets.insert(targets.end(), bytes, bytes + sizeof(target));
  }
  run.data.train = std::make_shared<MemoryDataset>(TensorType{DType::u8, Shape{8, 6, 2}},
                                                   TensorType{DType::i32, Shape{8, 6}}, samples, targets);
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.warnings.size() == 1);
  CHECK_THAT(run.events.warnings[0].message, Catch::Contains("are ignored"));
  bool has_silent_step = false;
  for (const StepEvent& step : run.events.steps) {
    CHECK(std::isfinite(step.loss));
    has_silent_step = has_silent_step || step.terms.values[0] == 0;
  }
  CHECK(has_silent_step);
}

TEST_CASE("A target that is ignored counts for nothing, whether its number is below 0 or above the classes") {
  const DataFolder folder;
  std::string features, below, above;
  for (int i = 0; i < 24; ++i) {
    for (int j = 0; j < 3; ++j) {
      const auto value = static_cast<float>((i * 7 + j * 5) % 11) / 11.0F;
      features.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    const bool is_ignored = i % 3 == 0;
    const std::int32_t label = i % 2, negative = is_ignored ? -1 : label, large = is_ignored ? 7 : label;
    below.append(reinterpret_cast<const char*>(&negative), sizeof(negative));
    above.append(reinterpret_cast<const char*>(&large), sizeof(large));
  }
  folder.write("x.npy", npy("<f4", "(24, 3)", features));
  folder.write("below.npy", npy("<i4", "(24,)", below));
  folder.write("above.npy", npy("<i4", "(24,)", above));
  const auto losses = [&](const std::string& labels, const std::string& ignored, const std::string& technique) {
    const std::string yaml = "name: ignored\ndata: {type: arrays, root: '" + folder.path() +
                             "', train: x.npy, train_labels: " + labels +
                             ", classes: 2}\nmodel: {layers: [linear: {out: 8}, relu, linear: {out: 2}]}\nloss: "
                             "{type: cross_entropy, ignore_index: " +
                             ignored + "}\noptimizer: {type: sgd, lr: 0.5}\ntrain: {batch_size: 5, steps: 12}\n";
    std::vector<double> seen;
    for (const StepEvent& step : pixel_events({technique}, yaml).steps) seen.push_back(step.loss);
    return seen;
  };
  for (const std::string technique : {"train.accumulation_steps=1", "train.accumulation_steps=2"}) {
    INFO(technique);
    const std::vector<double> of_below = losses("below.npy", "-1", technique);
    CHECK(of_below.size() == 12);
    CHECK(of_below == losses("above.npy", "7", technique));
  }
}
