#include "engine/train/evaluation_run.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/plan/search/settle_experiment.h"
#include "engine/train/files/initial_weights.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

EvaluationRun evaluated(const TestRun& run, const std::string& weights, std::int64_t num_worst,
                        std::int64_t capacity = 1 << 30) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const CompiledExperiment compiled = compile_for_evaluation(run.experiment, run.data.description, *device, num_worst);
  const WeightFiles files(initial_weights_file(weights));
  const WeightsMatch match = match_weights({}, files, compiled.program);
  Interruption interruption;
  EvaluationRun result = run_evaluation(compiled, run.data, *device, capacity, match, files, num_worst, interruption);
  const MemoryPlan plan = plan_memory(compiled, capacity);
  CHECK(plan.peak_allocated == result.memory.peak_allocated);
  CHECK(plan.peak_requested == result.memory.peak_requested);
  CHECK(plan.peak_reserved == result.memory.peak_reserved);
  return result;
}

}  // namespace

TEST_CASE("an evaluation of saved weights finds what their run found, to the bit, in the memory that its plan says") {
  const OutputFolder folder;
  int number = 0;
  for (const std::vector<std::string>& set : std::vector<std::vector<std::string>>{
           {},
           {"train.eval_batch_size=12"},
           {"train.eval_batch_size=1"},
           {"train.amp=bf16"},
           {"train.amp=bf16", "memory.master_weights=false", "memory.moments=8bit"},
           {"train.amp=fp16", "memory.allocator=planned"},
           {"loss=[cross_entropy, dice]", "train.confusion_matrix=on"},
           {"memory.chunked_loss=2"},
           {"loss.label_smoothing=0.1", "loss.class_weights=[1, 2, 3, 0.5]"},
           {"data.target_type=numeric", "loss=[mse, l1]", "model.layers.5.linear.out=4"},
           {"parallel.deterministic=true", "parallel.parts=4", "train.eval_batch_size=7"},
           {"parallel.deterministic=true", "parallel.parts=2", "memory.allocator=planned", "data.target_type=numeric",
            "loss=mse", "model.layers.5.linear.out=4"}}) {
    INFO((set.empty() ? "as it is" : set.front()));
    const std::string output = folder.path("run" + std::to_string(number++));
    std::vector<std::string> twelve = set;
    twelve.push_back("train.steps=12");
    TestRun run(small_experiment, output, twelve);
    REQUIRE(run() == RunStatus::done);
    const EvalEvent& told = run.events.evaluations.back();
    REQUIRE(told.step == 12);
    for (const std::int64_t num_worst : {0, 5}) {
      const EvaluationRun result = evaluated(run, checkpoint_file(output, 12, ""), num_worst);
      REQUIRE(result.status == RunStatus::done);
      CHECK(result.evaluation.loss == told.loss);
      CHECK(result.evaluation.accuracy == told.accuracy);
      CHECK(result.evaluation.top5 == told.top5);
      CHECK(result.evaluation.samples == told.samples);
      CHECK(result.evaluation.terms.values == told.terms.values);
      CHECK(result.evaluation.counted.mean_iou == told.counted.mean_iou);
      CHECK(result.evaluation.counted.mae == told.counted.mae);
      CHECK(result.evaluation.counted.r2 == told.counted.r2);
      CHECK(result.evaluation.counted.confusion == told.counted.confusion);
      const bool has_logits = set.empty() || set.front() != "memory.chunked_loss=2";
      CHECK(result.worst.size() == (num_worst > 0 && has_logits ? 5U : 0U));
    }
  }
}

TEST_CASE("losses of single samples add up to the loss of all of them") {
  const OutputFolder folder;
  for (const std::vector<std::string>& set : std::vector<std::vector<std::string>>{
           {},
           {"train.amp=bf16", "train.eval_batch_size=12"},
           {"loss.label_smoothing=0.1"},
           {"data.target_type=numeric", "loss=[{type: smooth_l1, beta: 0.3}, {type: bce_with_logits, weight: 0.5}]"}}) {
    INFO((set.empty() ? "as it is" : set.front()));
    std::vector<std::string> ten = set;
    ten.push_back("train.steps=10");
    TestRun run(small_experiment, folder.path("run"), ten);
    run.options.overwrite = true;
    REQUIRE(run() == RunStatus::done);
    const EvaluationRun result = evaluated(run, folder.path("run"), 12);
    REQUIRE(result.worst.size() == 12);
    double sum = 0;
    std::vector<std::int64_t> samples;
    std::size_t num_right = 0;
    for (std::size_t i = 0; i < 12; ++i) {
      sum += result.worst[i].loss;
      samples.push_back(result.worst[i].index);
      if (i > 0) CHECK(result.worst[i].loss <= result.worst[i - 1].loss);
      if (!result.worst[i].target) continue;
      CHECK(*result.worst[i].target == run.data.validation->class_of(result.worst[i].index));
      num_right += *result.worst[i].target == *result.worst[i].predicted ? 1 : 0;
    }
    CHECK(sum / 12 == Approx(result.evaluation.loss).epsilon(1e-5));
    std::sort(samples.begin(), samples.end());
    for (std::size_t i = 0; i < 12; ++i) CHECK(samples[i] == static_cast<std::int64_t>(i));
    if (result.evaluation.accuracy && result.worst[0].target)
      CHECK(static_cast<double>(num_right) / 12 == Approx(*result.evaluation.accuracy));
  }
}

TEST_CASE("an evaluation in less memory than it needs is refused before anything is computed") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"), {"train.steps=4"});
  REQUIRE(run() == RunStatus::done);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const CompiledExperiment compiled = compile_for_evaluation(run.experiment, run.data.description, *device, 0);
  const std::int64_t needed = plan_memory(compiled, 1 << 30).peak_reserved;
  CHECK(plan_memory(compiled, needed).fits);
  CHECK_FALSE(plan_memory(compiled, needed - 1).fits);
  const WeightFiles files(initial_weights_file(folder.path("run")));
  const WeightsMatch match = match_weights({}, files, compiled.program);
  Interruption interruption;
  CHECK_THROWS_AS(run_evaluation(compiled, run.data, *device, needed - 1, match, files, 0, interruption),
                  ProgramOutOfMemory);
}

}  // namespace trainer
