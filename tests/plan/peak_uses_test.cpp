#include <catch2/catch.hpp>
#include <numeric>

#include "engine/config/load_experiment.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

std::int64_t sum_of_categories(const CategoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

MemoryPlan plan_of(const std::string& yaml, const std::vector<std::string>& set, const DataDescription& data,
                   std::int64_t capacity = unlimited_capacity) {
  const Experiment experiment = parse_experiment(yaml, "test.yaml", set);
  const Program program = compile(experiment, data, DescribedDevice(3000));
  return make_memory_plan(program, RunSchedule(experiment, data), capacity, allocator_options(experiment));
}

void check_sums(const MemoryPlan& plan) {
  bool adds_up = !plan.peak.timeline.empty();
  for (const TimelinePoint& point : plan.peak.timeline)
    adds_up = adds_up && sum_of_categories(point.by_category) == point.allocated;
  CHECK(adds_up);
  CHECK(plan.peak.uses.total() == plan.peak.allocated);
  std::int64_t kept = 0, of_layers = 0;
  for (const PeakUses::KeptLayer& layer : plan.peak.uses.kept_by_layer) kept += layer.num_bytes;
  CHECK(kept == plan.peak.uses.kept);
  for (const LiveMemory::LayerBytes& layer : plan.peak.live.by_layer) {
    of_layers += layer.num_bytes;
    CHECK(sum_of_categories(layer.by_category) == layer.num_bytes);
  }
  CHECK(of_layers == plan.peak.allocated);
}

constexpr const char* images =
    "data: {type: synthetic, shape: [9, 7, 3], classes: 5, samples: 29, validation_samples: 11}\n"
    "model: {layers: [conv2d: {out: 11, kernel: 3}, batchnorm2d, relu, residual: {layers: [conv2d: {out: 11, kernel: "
    "3, "
    "padding: 1}, relu]}, maxpool2d, flatten, linear: {out: 37}, relu, linear: {out: 5}]}\n"
    "optimizer: adamw\ntrain: {batch_size: 13}\n";

}  // namespace

TEST_CASE("at every point of a step the categories, and at the peak the uses and layers, sum to what is allocated") {
  const DataDescription data = described_data({9, 7, 3}, 5, 29, 11);
  for (const std::vector<std::string>& set :
       std::vector<std::vector<std::string>>{{},
                                             {"train.batch_size=1"},
                                             {"train.amp=bf16"},
                                             {"train.accumulation_steps=2"},
                                             {"train.checkpointing={every: 2}", "memory.recompute_cheap=false"},
                                             {"memory.allocator=planned"},
                                             {"memory.update=in_backward"},
                                             {"train.batch_size=1", "train.eval_batch_size=11"}}) {
    INFO((set.empty() ? "as it is" : set.front()));
    check_sums(plan_of(images, set, data));
  }
}

TEST_CASE("where memory runs out, the points until then sum to what was allocated") {
  const std::vector<std::string> set = {"data.shape=[61, 53, 3]"};
  const DataDescription data = described_data({61, 53, 3}, 5, 29, 11);
  const MemoryPlan plan = plan_of(images, set, data, plan_of(images, set, data).peak_reserved - 1);
  REQUIRE_FALSE(plan.fits);
  REQUIRE_FALSE(plan.failure->timeline.empty());
  bool adds_up = true;
  for (const TimelinePoint& point : plan.failure->timeline)
    adds_up = adds_up && sum_of_categories(point.by_category) == point.allocated;
  CHECK(adds_up);
  CHECK(plan.failure->timeline.back().by_category == plan.failure->live.by_category);
}

TEST_CASE("the peak of a chain is told apart into what stands, what the op needs and what is kept") {
  // Features 128, layers of 256, 1024 and 3 outputs, batch 64, f32 and no momentum. The most is held when the gradient
  // of the layer of 1024 is taken: the rectified output of the layer before is 64 KiB, and 256 KiB are its own.
  const MemoryPlan plan = plan_of(
      "data: {type: synthetic, shape: [128], classes: 3, samples: 64}\n"
      "model: {layers: [linear: {out: 256}, relu, linear: {out: 1024}, relu, linear: {out: 3}]}\n"
      "optimizer: {type: sgd, lr: 0.1}\ntrain: {batch_size: 64}\n",
      {}, described_data({128}, 3, 64));
  const PeakUses& uses = plan.peak.uses;
  check_sums(plan);
  CHECK(plan.peak.phase == Phase::backward);
  // 128·256+256 + 256·1024+1024 + 1024·3+3 values, each buffer in whole blocks of 512 B, and the statistics' block.
  const std::int64_t parameters = 4 * 128 * 256 + 1024 + 4 * 256 * 1024 + 4096 + 4 * 1024 * 3 + 512;
  CHECK(uses.standing >= parameters);
  CHECK(uses.standing <= parameters + 2048);
  CHECK(uses.gradients >= 4 * 256 * 1024);
  CHECK(uses.workspace == 0);
  CHECK(uses.recomputed == 0);
  // Of what the layers below keep for their own gradients, nothing is left out: the batch of 32 KiB.
  CHECK(uses.kept >= 64 * 128 * 4);
}
