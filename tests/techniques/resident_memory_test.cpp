#include "engine/memory/machine_memory.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

// The sanitizers keep books on every byte, which grow with the program's memory.
#if !defined(__SANITIZE_ADDRESS__)

TEST_CASE("The resident memory of the process grows by what the allocator reserves, and little else") {
  const OutputFolder folder;
  // Weights of 17 MiB with gradients and momentum, activations of about 150 MiB.
  const std::string yaml = R"(
name: resident
seed: 1
data: {type: synthetic, shape: [32, 32, 3], classes: 10, samples: 512}
model:
  layers:
    - conv2d: {out: 32, kernel: 3, padding: 1}
    - relu
    - conv2d: {out: 32, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - maxpool2d: {kernel: 2}
    - flatten
    - linear: {out: 512}
    - relu
    - linear: {out: 10}
optimizer: {type: sgd, lr: 0.01, momentum: 0.9}
train: {batch_size: 256, steps: 3}
)";
  const std::unique_ptr<Device> device = make_cpu_device(2);
  // The libraries' code, kernels and threads come first.
  TestRun warm(yaml, folder.path("warm"), {"train.batch_size=2", "train.steps=2"});
  REQUIRE(warm(*device) == RunStatus::done);
  TestRun run(yaml, folder.path("run"));
  const std::int64_t before = resident_bytes();
  REQUIRE(run(*device) == RunStatus::done);
  const std::int64_t mebibyte = std::int64_t{1} << 20;
  for (const StepEvent& step : run.events.steps) {
    const std::int64_t growth = step.memory.device_used - before;
    INFO("step " << step.step << ": resident " << growth << ", reserved " << step.memory.step.reserved);
    CHECK(step.memory.step.reserved > 100 * mebibyte);
    // A staged batch of 3 MiB, and 9 MiB of packed operands (Note [Packed operands]) in blocks of whole mebibytes.
    CHECK(growth - step.memory.step.reserved < 24 * mebibyte);
    CHECK(step.memory.step.reserved - growth < 24 * mebibyte);
  }
  // What was reserved has left the process with the run; the heap keeps some of what was packed.
  CHECK(resident_bytes() - before < 48 * mebibyte);
}

TEST_CASE("Products take no more memory in their hundredth step than in their fifth") {
  const OutputFolder folder;
  // On processors without AVX-512 each step packs operands of 9 MiB: Note [Packed operands].
  TestRun run(R"(
name: products
seed: 1
data: {type: synthetic, shape: [4096], classes: 10, samples: 512}
model: {layers: [linear: {out: 1024}, relu, linear: {out: 10}]}
optimizer: {type: sgd, lr: 0.01}
train: {batch_size: 256, steps: 100, epochs: 100}
)",
              folder.path("run"));
  const std::unique_ptr<Device> device = make_cpu_device(2);
  REQUIRE(run(*device) == RunStatus::done);
  const std::vector<StepEvent>& steps = run.events.steps;
  REQUIRE(steps.size() == 100);
  CHECK(steps.back().memory.device_used - steps[4].memory.device_used < std::int64_t{6} << 20);
}

#endif
