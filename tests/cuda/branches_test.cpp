// Note [Branches] in engine/train/branches.h, on a device whose second queue runs as late, or as early, as its waits
// allow.

#include <array>
#include <catch2/catch.hpp>

#include "cuda/ops/branches.h"
#include "engine/errors.h"
#include "tests/cuda/emulated_device.h"
#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

/// A finished run on a device that records; `branches` says whether it may branch.
std::int64_t num_branches_of(const OutputFolder& folder, const std::string& name, const std::string& experiment,
                             std::vector<std::string> overrides, bool branches, cuda::CopyTiming timing) {
  if (!branches) overrides.emplace_back("device.branches=false");
  WrappedDevice device(cuda::make_emulated_device(false, timing));
  device.records = true;
  TestRun run(experiment, folder.path(name), overrides);
  REQUIRE(run(device) == RunStatus::done);
  CHECK(run.events.ends.at(0).passes.replayed > 0);
  CHECK((run.events.ends.at(0).passes.branches > 0) == (device.num_branches > 0));
  return device.num_branches;
}

constexpr const char* deep = R"(
name: deep
seed: 3
data: {type: synthetic, shape: [24], classes: 5, samples: 40}
model:
  layers:
    - linear: {out: 48}
    - relu
    - linear: {out: 32}
    - relu
    - linear: {out: 40}
    - gelu
    - linear: {out: 24}
    - linear: {out: 5}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 8, steps: 12}
)";

constexpr const char* convolutions = R"(
name: convolutions
seed: 3
data: {type: synthetic, shape: [8, 8, 3], classes: 4, samples: 40}
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual:
        layers:
          - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
          - relu
          - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
    - relu
    - conv2d: {out: 16, kernel: 3, stride: 2, padding: 1}
    - relu
    - global_avgpool
    - linear: {out: 4}
optimizer: {type: sgd, lr: 0.01, momentum: 0.9}
train: {batch_size: 8, steps: 12}
)";

}  // namespace

TEST_CASE("Branches change no bit of a run, however late or early they are computed") {
  using Overrides = std::vector<std::string>;
  const char* const experiment = GENERATE(deep, convolutions);
  const Overrides overrides =
      GENERATE(Overrides{}, Overrides{"memory.allocator=planned", "memory.in_place=false"}, Overrides{"train.amp=bf16"},
               Overrides{"memory.update=in_backward"}, Overrides{"train.amp=fp16", "memory.gradients=16bit"},
               Overrides{"train.accumulation_steps=2", "train.clip_norm=0.5"},
               Overrides{"train.checkpointing=sqrt", "memory.offload=['*']"});
  CAPTURE(experiment, overrides);
  const OutputFolder folder;
  const auto run = [&](const std::string& name, bool branches, cuda::CopyTiming timing) {
    return num_branches_of(folder, name, experiment, overrides, branches, timing);
  };
  CHECK(run("alone", false, cuda::CopyTiming::late) == 0);
  const std::int64_t num_branches = run("late", true, cuda::CopyTiming::late);
  run("early", true, cuda::CopyTiming::early);
  const bool is_planned = overrides == Overrides{"memory.allocator=planned", "memory.in_place=false"};
  if (overrides.empty() || (experiment == deep && !is_planned)) CHECK(num_branches > 0);
  for (const char* name : {"late", "early"}) {
    CHECK(same_file(folder, name, "alone", 12, "model.safetensors"));
    CHECK(same_file(folder, name, "alone", 12, "optimizer.safetensors"));
  }
}

TEST_CASE("A recording whose branches are not joined is refused by the emulated device as by CUDA") {
  const auto device = cuda::make_emulated_device();
  const Op add = add_op({DType::f32, {4}});
  float values[4] = {1, 2, 3, 4}, sums[4] = {};
  std::array<void*, 2> inputs = {values, values};
  std::array<void*, 1> outputs = {sums};
  const auto queue = [&] { device->prepare(add).run({inputs, outputs, nullptr}); };
  std::string obstacle;
  CHECK_THROWS_AS(device->record([&] { device->branch(queue); }, obstacle), InternalError);
  CHECK_THROWS_AS(device->branch(queue), InternalError);
  const auto recording = device->record([&] { device->join(device->branch(queue)); }, obstacle);
  recording->replay();
  device->synchronize();
  CHECK(sums[3] == 8);
}

TEST_CASE("A recording that is refused with branches is made without them, and so are those that follow") {
  class NoStreams final : public cuda::SideStreams {
   public:
    std::int32_t make_event() override { return 0; }
    void record(std::int32_t, cuda::StreamKind) override {}
    void wait(cuda::StreamKind, std::int32_t) override {}
    void copy(cuda::StreamKind, void*, const void*, std::int64_t) override {}
  } streams;
  class NoRecording final : public Recording {
    void replay() override {}
  };
  cuda::Branches branches(streams, [](cuda::StreamKind) {});
  bool grants_any = false;
  const auto record = [&](std::string& obstacle) {
    std::string reason;
    auto recording = branches.record(
        [&](std::string& refused) -> std::unique_ptr<Recording> {
          const bool branch = branches.are_granted();
          if (branch) branches.join(branches.branch([] {}));
          if (!branch && grants_any) return std::make_unique<NoRecording>();
          refused = branch ? "no second stream" : "nothing at all";
          return nullptr;
        },
        reason);
    obstacle = reason;
    return recording != nullptr;
  };
  std::string obstacle;
  CHECK_FALSE(record(obstacle));
  CHECK(obstacle == "no second stream");
  CHECK(branches.obstacle().empty());
  grants_any = true;
  CHECK(record(obstacle));
  CHECK(obstacle.empty());
  CHECK_FALSE(branches.are_granted());
  CHECK(branches.obstacle() == "no second stream");
  CHECK(record(obstacle));
}
