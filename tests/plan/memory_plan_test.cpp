#include "engine/plan/memory_plan.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/simulated_source.h"
#include "engine/plan/step_routines.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

Experiment experiment_of(const std::string& rest) {
  return parse_experiment("data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\n" + rest, "test.yaml");
}

MemoryPlan plan_of(const Experiment& experiment, const DataDescription& data,
                   std::int64_t capacity = unlimited_capacity) {
  return make_memory_plan(compile(experiment, data, DescribedDevice()), RunSchedule(experiment, data), capacity);
}

constexpr std::int64_t mib = 1024 * 1024;

}  // namespace

TEST_CASE("the bytes of a linear network are those worked out by hand") {
  // Features 4, linear to 3, batch 2, SGD without momentum.
  // Kept: weight 3·4·4 = 48, bias 12, loss statistics 5·8 = 40: 100 bytes in 3 blocks.
  // Highest at the weight's gradient: + batch 2·4·4 = 32, logits 2·3·4 = 24 (the gradient over them), dW 48, db 12
  // = 216 bytes in 7 blocks of 512; the targets are gone by then.
  const Experiment experiment =
      experiment_of("model: {layers: [{linear: {out: 3}}]}\ntrain: {batch_size: 2}\noptimizer: {type: sgd, lr: 0.1}\n");
  const MemoryPlan plan = plan_of(experiment, described_data({4}, 3, 6));
  CHECK(plan.peak_requested == 216);
  CHECK(plan.peak_allocated == 7 * 512);
  CHECK(plan.peak_reserved == 2 * mib);
  CHECK(plan.steady_step.requested == 100);
  CHECK(plan.steady_step.allocated == 3 * 512);
  CHECK(plan.peak.phase == Phase::backward);
  CHECK(plan.peak.op == "linear_backward_weight");
}

TEST_CASE("the bytes of a wide network with momentum are those worked out by hand") {
  // 28·28 pixels, 2000 hidden, 10 classes, batch 128.
  // Kept, twice for the momentum: W1 2000·784·4 = 6,272,000; b1 8,000; W2 80,000; b2 40; and 40 bytes of statistics.
  // Highest at the first layer's weight gradient: + pixels 128·784·4 = 401,408, gradient of the hidden layer
  // 128·2000·4 = 1,024,000 (over which ReLU's was written), dW2 80,000, db2 40, dW1 6,272,000, db1 8,000.
  const std::int64_t kept = 2 * (6'272'000 + 8'000 + 80'000 + 40) + 40;
  const std::int64_t most = kept + 401'408 + 1'024'000 + 80'000 + 40 + 6'272'000 + 8'000;
  // In blocks of 512: 8,000 → 8,192; 80,000 → 80,384; 40 → 512; the others are multiples.
  const std::int64_t kept_blocks = 2 * (6'272'000 + 8'192 + 80'384 + 512) + 512;
  const std::int64_t most_blocks = kept_blocks + 401'408 + 1'024'000 + 80'384 + 512 + 6'272'000 + 8'192;
  const Experiment experiment = experiment_of(
      "model: {layers: [flatten, {linear: {out: 2000}}, relu, {linear: {out: 10}}]}\n"
      "train: {batch_size: 128}\noptimizer: {type: sgd, momentum: 0.9}\n");
  const MemoryPlan plan = plan_of(experiment, described_data({28, 28, 1}, 10, 1280));
  CHECK(plan.peak_requested == most);
  CHECK(plan.peak_allocated == most_blocks);
  // Large pool: W1, its momentum and dW1 share one segment of 20 MiB. Small pool: the rest of what is kept, the batch,
  // pixels and hidden layer fill one segment of 2 MiB; the hidden layer's gradient needs a second one.
  CHECK(plan.peak_reserved == 20 * mib + 2 * 2 * mib);
  CHECK(plan.steady_step.requested == kept);
  CHECK(plan.steady_step.allocated == kept_blocks);
}

TEST_CASE("the bytes of a convolutional network with Adam are those worked out by hand") {
  // Images 4·4·1, conv 3×3 to 2 without bias, batch norm with ReLU, max-pool 2, flatten, linear 8 → 3, batch 2.
  // Kept: conv 72; running mean, running variance, weight, bias 8 each; linear 96 + 12: 212. Moments of the trainable
  // 196, twice: 392. Statistics 40. Together 644 bytes, in 7 + 10 + 1 = 18 blocks.
  const Experiment experiment = experiment_of(
      "model: {layers: [{conv2d: {out: 2, kernel: 3, padding: 1, bias: false}}, batchnorm2d, relu,"
      " {maxpool2d: {kernel: 2}}, flatten, {linear: {out: 3}}]}\n"
      "train: {batch_size: 2}\noptimizer: {type: adam}\n");
  const MemoryPlan plan = plan_of(experiment, described_data({4, 4, 1}, 3, 6));
  // Requested is highest at the pool's gradient: pixels 128, conv output 256, mean 8, reciprocal deviation 8, indices
  // 16, gradient of the pooled 64, gradient of the norm's output 256, dW 96, db 12.
  CHECK(plan.peak_requested == 644 + 128 + 256 + 8 + 8 + 16 + 64 + 256 + 96 + 12);
  // Each of those nine takes one block; no other call holds more of them (the norm's gradient finds pixels, conv
  // output, mean, reciprocal deviation, gradient of the norm's output, dW, db, and its own of weight and bias).
  CHECK(plan.peak_allocated == (18 + 9) * 512);
  CHECK(plan.peak_reserved == 2 * mib);
  CHECK(plan.steady_step.requested == 644);
}

TEST_CASE("by category and by layer both sum to the peak") {
  const Experiment experiment = experiment_of(
      "model: {layers: [{conv2d: {out: 16, kernel: 3}}, batchnorm2d, relu, flatten, {linear: {out: 10}}]}\n"
      "train: {batch_size: 32}\noptimizer: {type: adamw}\n");
  const MemoryPlan plan = plan_of(experiment, described_data({8, 8, 3}, 10, 64, 10));
  const auto& categories = plan.peak.live.by_category;
  CHECK(std::accumulate(categories.begin(), categories.end(), std::int64_t{0}) == plan.peak_allocated);
  std::int64_t layers = 0;
  for (const auto& layer : plan.peak.live.by_layer) layers += layer.num_bytes;
  CHECK(layers == plan.peak_allocated);
  CHECK(plan.peak.allocated == plan.peak_allocated);
  std::int64_t highest = 0;
  for (const TimelinePoint& point : plan.peak.timeline) highest = std::max(highest, point.allocated);
  CHECK(highest == plan.peak_allocated);
}

namespace {

/// Every single step of a run through an allocator of its own, held against what the plan says of it. Returns how often
/// the cache was given back; nothing where the run does not fit `share_of_peak` of what the plan would cache.
std::optional<std::int64_t> check_against_plain_walk(const std::string& rest, std::int64_t num_train,
                                                     std::int64_t num_validation, double share_of_peak = 0) {
  const Experiment experiment = experiment_of(
      "model: {layers: [{conv2d: {out: 64, kernel: 3}}, batchnorm2d, relu, {conv2d: {out: 96, kernel: 3}},"
      " gelu, flatten, {linear: {out: 400}}, {linear: {out: 10}}]}\n"
      "optimizer: {type: adam}\n" +
      rest);
  INFO(rest);
  const DataDescription data = described_data({16, 16, 3}, 10, num_train, num_validation);
  const Program program = compile(experiment, data, DescribedDevice(3'000'000));
  const RunSchedule schedule(experiment, data);
  std::int64_t capacity = unlimited_capacity;
  if (share_of_peak > 0) {
    const MemoryPlan unbounded = make_memory_plan(program, schedule, capacity);
    capacity = unbounded.peak_allocated +
               static_cast<std::int64_t>(share_of_peak *
                                         static_cast<double>(unbounded.peak_reserved - unbounded.peak_allocated));
  }
  const MemoryPlan plan = make_memory_plan(program, schedule, capacity);
  if (!plan.fits) return std::nullopt;

  SimulatedSource source(capacity);
  CachingAllocator allocator(source);
  LiveBuffers live(program, allocator);
  auto walk = [&](const Routine& routine) {
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind == Instruction::Kind::allocate) live.allocate(instruction.index);
      if (instruction.kind == Instruction::Kind::release) live.release(instruction.index);
    }
  };
  auto check = [&](std::int64_t step, bool evaluation) {
    const StepMemory* planned = plan.find(step, evaluation);
    INFO("step " << step << (evaluation ? ", evaluation" : ""));
    REQUIRE(planned != nullptr);
    const MemoryStatistics& statistics = allocator.statistics();
    CHECK(planned->peak_requested == statistics.requested_bytes.all.peak);
    CHECK(planned->peak_allocated == statistics.allocated_bytes.all.peak);
    CHECK(planned->peak_reserved == statistics.reserved_bytes.all.peak);
    CHECK(planned->reserved == statistics.reserved_bytes.all.current);
  };
  std::int64_t num_evaluations = 0;
  allocator.begin_layout();
  walk(program.load);
  for (std::int64_t step = 1; step <= schedule.total_steps(); ++step) {
    allocator.reset_peaks();
    allocator.begin_layout();
    for_each_step_routine(program, schedule, schedule.step(step), [&](const Routine& routine, bool) { walk(routine); });
    check(step, false);
    if (!schedule.step(step).evaluates) continue;
    ++num_evaluations;
    allocator.reset_peaks();
    for_each_evaluation_routine(program, schedule, [&](const auto& routines, std::int64_t times) {
      for (std::int64_t i = 0; i < times; ++i)
        for (const Routine* const routine : routines) {
          allocator.begin_layout();
          walk(*routine);
        }
    });
    check(step, true);
  }
  CHECK(plan.num_alloc_retries == allocator.statistics().num_alloc_retries);
  std::int64_t planned_steps = 0, planned_evaluations = 0;
  for (const PlannedSteps& entry : plan.steps) {
    if (entry.first_step == 0) continue;
    (entry.evaluation ? planned_evaluations : planned_steps) += plan.num_occurrences(entry);
  }
  CHECK(planned_steps == schedule.total_steps());
  CHECK(planned_evaluations == num_evaluations);
  return plan.num_alloc_retries;
}

}  // namespace

TEST_CASE("a plan with skipped repetitions equals a walk through every single step") {
  for (const char* train : {"train: {batch_size: 7, epochs: 9}\n", "train: {batch_size: 7, epochs: 5, eval_every: 4}\n",
                            "train: {batch_size: 5, steps: 61, accumulation_steps: 3}\n",
                            "train: {batch_size: all, epochs: 40}\n", "train: {batch_size: 64, steps: 1}\n"}) {
    CHECK(check_against_plain_walk(train, 64, 20));
    CHECK(check_against_plain_walk(train, 64, 0));
  }
  CHECK(check_against_plain_walk("train: {batch_size: 16, epochs: 10}\n", 80, 0));
}

TEST_CASE("a plan that must give the cache back counts every retry of the run") {
  // Training and evaluation take turns in pushing each other's segments out, in every epoch.
  const auto retries =
      check_against_plain_walk("train: {batch_size: 40, eval_batch_size: 30, epochs: 12}\n", 72, 1000, 0.95);
  CHECK(retries.value_or(0) >= 12);
}

TEST_CASE("where every step ends in the odd batch it is the steady one") {
  const Experiment experiment = experiment_of(
      "model: {layers: [flatten, {linear: {out: 10}}]}\ntrain: {batch_size: 64, accumulation_steps: 2, epochs: 3}\n");
  const MemoryPlan plan = plan_of(experiment, described_data({8, 8, 3}, 10, 100));
  CHECK(plan.steady_step.peak_requested > 0);
}

TEST_CASE("the plan fits at its own peak and fails one block below, and says where") {
  const Experiment experiment = experiment_of(
      "model: {layers: [{conv2d: {out: 64, kernel: 3}}, relu, flatten, {linear: {out: 200}}, {linear: {out: 10}}]}\n"
      "train: {batch_size: 64}\noptimizer: {type: sgd, momentum: 0.9}\n");
  const DataDescription data = described_data({16, 16, 3}, 10, 256);
  const MemoryPlan unbounded = plan_of(experiment, data);
  CHECK(plan_of(experiment, data, unbounded.peak_reserved).fits);
  // Below the highest allocated value nothing can help; between it and the reserved one the cache may be given back.
  const MemoryPlan failed = plan_of(experiment, data, unbounded.peak_allocated - 512);
  REQUIRE_FALSE(failed.fits);
  REQUIRE(failed.failure);
  CHECK(failed.failure->planned);
  CHECK(failed.failure->step == 1);
  CHECK_FALSE(failed.failure->buffer.empty());
  CHECK_FALSE(failed.failure->timeline.empty());
  const auto& categories = failed.failure->live.by_category;
  CHECK(std::accumulate(categories.begin(), categories.end(), std::int64_t{0}) ==
        failed.failure->failure.statistics.allocated_bytes.all.current);
}
