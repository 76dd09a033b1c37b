#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

/// How many kernels were asked for when the first step had ended.
struct PreparationSink : RecordingSink {
  const WrappedDevice* device = nullptr;
  std::int64_t num_prepared = 0;

  void take(const Event& event) override {
    if (std::holds_alternative<StepEvent>(event) && steps.empty()) num_prepared = device->num_prepared;
    RecordingSink::take(event);
  }
};

}  // namespace

TEST_CASE("The kernels of all that a run will do are prepared before its first step") {
  // 44 samples: batches of 5, the last of them of 4.
  const std::vector<std::string> overrides =
      GENERATE(std::vector<std::string>{"train.eval_every=3"},
               std::vector<std::string>{"train.accumulation_steps=1", "train.eval_batch_size=7"},
               std::vector<std::string>{"train.accumulation_steps=9", "memory.allocator=planned"});
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"), overrides);
  WrappedDevice device(make_cpu_device(1));
  PreparationSink sink;
  sink.device = &device;
  REQUIRE(run_training(run.experiment, run.data, device, run.options, run.interruption, sink) == RunStatus::done);
  REQUIRE(!sink.evaluations.empty());
  CHECK(sink.num_prepared > 0);
  CHECK(device.num_prepared == sink.num_prepared);
}
