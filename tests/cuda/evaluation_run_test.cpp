#include "engine/train/evaluation_run.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/train/files/initial_weights.h"
#include "engine/train/measure/range_test_run.h"
#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("the emulated GPU evaluates saved weights to the bits of their run, in the planned memory") {
  const std::unique_ptr<Device> device = cuda::make_emulated_device();
  const OutputFolder folder;
  for (const std::vector<std::string>& set :
       std::vector<std::vector<std::string>>{{}, {"train.amp=fp16", "memory.allocator=planned"}, {"train.amp=bf16"}}) {
    INFO((set.empty() ? "as it is" : set.front()));
    std::vector<std::string> eight = set;
    eight.push_back("train.steps=8");
    TestRun run(small_experiment, folder.path("run"), eight);
    run.options.overwrite = true;
    REQUIRE(run(*device) == RunStatus::done);
    const WeightFiles files(initial_weights_file(checkpoint_file(folder.path("run"), 8, "")));
    for (const std::int64_t num_worst : {0, 12}) {
      const CompiledExperiment compiled =
          compile_for_evaluation(run.experiment, run.data.description, *device, num_worst);
      Interruption interruption;
      const EvaluationRun found =
          run_evaluation(compiled, run.data, *device, 1 << 30, match_weights({}, files, compiled.program), files,
                         num_worst, interruption);
      CHECK(found.evaluation.loss == run.events.evaluations.back().loss);
      CHECK(found.evaluation.accuracy == run.events.evaluations.back().accuracy);
      const MemoryPlan plan = plan_memory(compiled, 1 << 30);
      CHECK(found.memory.peak_allocated == plan.peak_allocated);
      CHECK(found.memory.peak_reserved == plan.peak_reserved);
      double sum = 0;
      for (const SampleLoss& sample : found.worst) sum += sample.loss;
      if (num_worst > 0) CHECK(sum / 12 == Approx(found.evaluation.loss).epsilon(1e-5));
    }
  }
}

TEST_CASE("the emulated GPU, whose steps are queued ahead, tests learning rates on the steps of a run") {
  const std::unique_ptr<Device> device = cuda::make_emulated_device();
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"),
              {"schedule={type: constant}", "optimizer.lr=0.01", "train.steps=12"});
  REQUIRE(run(*device) == RunStatus::done);
  const TestRun tested(small_experiment, folder.path("none"));
  const CompiledExperiment compiled =
      compile_experiment(with_range_test(tested.experiment, 12), tested.data.description, *device, 1 << 30);
  Interruption interruption;
  const RangeTestRun found = run_range_test(compiled, tested.data, *device, 1 << 30, nullptr,
                                            {.from = 0.01, .to = 0.01, .steps = 12}, interruption);
  REQUIRE(found.test.losses().size() == 12);
  for (std::size_t i = 0; i < 12; ++i) CHECK(found.test.losses()[i] == run.events.steps[i].loss);
}
