#include <malloc.h>

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
  // For AVX2 oneDNN packs operands of products in memory that it takes from the heap in each call, 4096 bytes aligned,
  // which glibc's heap then grows by for some thirty steps. Where it is mapped, what is freed leaves the process.
  if (!__builtin_cpu_supports("avx512f")) mallopt(M_MMAP_THRESHOLD, 256 << 10);
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
    CHECK(growth - step.memory.step.reserved < 12 * mebibyte);
    CHECK(step.memory.step.reserved - growth < 24 * mebibyte);
  }
  // What was reserved has left the process with the run.
  CHECK(resident_bytes() - before < 12 * mebibyte);
}

#endif
